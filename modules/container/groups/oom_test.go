package groups

import (
	"testing"

	"github.com/croft-edge/croft/pkg/cgroup"
)

func TestOOMText(t *testing.T) {
	for _, c := range []struct {
		events      cgroup.Events
		limit, code uint64
		want        string
	}{
		{cgroup.Events{}, 64 << 20, 137, ""},
		{cgroup.Events{AtLimit: true}, 64 << 20, 137, ""}, // the page cache was given back
		{cgroup.Events{OOMKills: 1, AtLimit: true}, 64 << 20, 137, "out of memory: the kernel killed it; its limit is 64 MiB"},
		{cgroup.Events{OOMKills: 2, AtLimit: true}, 1<<20 + 1, 1, "out of memory: the kernel killed 2 of its processes; its limit is 1048577 bytes"},
		{cgroup.Events{OOMKills: 1}, 64 << 20, 137, "out of memory: the kernel killed it; its limit is 64 MiB, which it hadn't reached: all containers together, or the node, had none left"},
	} {
		if got := oomText(c.events, c.limit, c.code); got != c.want {
			t.Errorf("%+v, exit code %d: %q, want %q", c.events, c.code, got, c.want)
		}
	}
}
