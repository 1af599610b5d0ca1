package carrier

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := OpenLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 500 {
		fmt.Fprintf(l, "line %03d\n", i)
	}
	total := 0
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if total += len(text); len(text) > 1000 || len(text)%9 != 0 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
	newest, _ := os.ReadFile(path)
	if !strings.HasSuffix(string(newest), "line 499\n") || total < 1000 {
		t.Errorf("of %d bytes the end is lost: %q", total, newest)
	}
	all, _ := filepath.Glob(path + "*")
	if len(all) != 2 {
		t.Errorf("logs %v", all)
	}
}

// Control groups of a machine of each kind, and the group that a carrier gets.
func TestControlGroups(t *testing.T) {
	for _, c := range []struct {
		name, groups, mounts string
		want                 []string
	}{
		{
			"version 2", "0::/system.slice/croftd.service\n",
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			[]string{"/sys/fs/cgroup/system.slice/x"},
		},
		{
			"version 2, at the root", "0::/\n",
			"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			[]string{"/sys/fs/cgroup/x"},
		},
		{
			"version 1", "9:name=systemd:/a/b\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/c\n",
			"1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /cg/systemd rw - cgroup none rw,xattr,name=systemd\n" +
				"3 0 0:3 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n4 0 0:4 / /cg/unified rw - cgroup2 cgroup2 rw\n",
			[]string{"/cg/systemd/a/x", "/cg/memory/a/x", "/cg/cpu/x", "/cg/unified/x"},
		},
		{
			"somebody's limit", "9:name=systemd:/a/b\n4:memory:/jail/1\n",
			"1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /cg/systemd rw - cgroup none rw,name=systemd\n",
			[]string{"/cg/systemd/a/x", "/cg/memory/jail/1/x"},
		},
		{
			"in a container", "4:memory:/docker/1/agent\n2:pids:/elsewhere\n",
			"1 0 0:1 /docker/1 /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 /docker/1 /cg/pids rw - cgroup cgroup rw,pids\n",
			[]string{"/cg/memory/agent/x"},
		},
		{"none", "", "", nil},
		{"garbage", "x\n::\n4:memory\n", "- -\n1 2 3 - cgroup\n", nil},
	} {
		got := OwnGroups(parseHierarchies(c.groups, c.mounts), "x")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
