package carrier

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

func TestAFullWindowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(2, time.Second)
		began := time.Now()
		w.take(1)
		w.wait()
		w.take(1)
		if time.Since(began) != 0 {
			t.Error("a window with room waits")
		}
		go func() {
			<-time.After(300 * time.Millisecond)
			w.free(1)
		}()
		w.wait()
		if got := time.Since(began); got != 300*time.Millisecond {
			t.Errorf("room came after 300ms, it waited %s", got)
		}
		w.take(1)
		w.wait()
		if got := time.Since(began); got != 1300*time.Millisecond || w.held != 0 {
			t.Errorf("what was dropped holds it for %s, with %d left", got, w.held)
		}
		w.free(5)
		if w.held != 0 {
			t.Errorf("what wasn't counted leaves %d", w.held)
		}
	})
}

func TestPacketsAreHandedOnInBatches(t *testing.T) {
	p := newPackets(0)
	for i := range 5 {
		p.sizes[i] = copy(p.slots[i], fmt.Sprint("packet", i))
		p.endpoints[i] = &conn.StdNetEndpoint{}
	}
	p.filled(5)
	var got []string
	for !p.empty() {
		bufs, sizes, ends := [][]byte{make([]byte, 16), make([]byte, 16)}, make([]int, 2), make([]conn.Endpoint, 2)
		n := p.hand(bufs, sizes, ends, 4)
		for i := range n {
			got = append(got, string(bufs[i][4:4+sizes[i]]))
			if ends[i] == nil {
				t.Error("an endpoint is lost")
			}
		}
		if n == 0 {
			t.Fatal("none is handed on")
		}
	}
	if want := []string{"packet0", "packet1", "packet2", "packet3", "packet4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTheLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path, 1000)
	must(t, err)
	defer l.Close()
	for i := range 500 {
		fmt.Fprintf(l, "line %03d\n", i)
	}
	total := 0
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		must(t, err)
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
		got := ownGroups(parseHierarchies(c.groups, c.mounts), "x")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
