package cgroup

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/mounts"
)

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
		got := BesideIn(parseHierarchies(c.groups, mounts.Parse(c.mounts)), "x").Folders()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
