package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Events are the kernel's events in a group since that was made.
type Events struct {
	// OOMKills counts its processes that the kernel has killed because memory
	// was short: the group's, or that of one above it, or the machine's.
	OOMKills uint64
	// AtLimit is whether the group's own limit was reached.
	AtLimit bool
}

// Events reads the kernel's events in the group; none when it isn't there.
func (g Group) Events() Events {
	var out Events
	for _, p := range g.places {
		if !p.has("memory") {
			continue
		}
		if p.version() == 2 {
			out.OOMKills = counter(p.dir, "memory.events", "oom_kill")
			out.AtLimit = counter(p.dir, "memory.events", "oom") > 0
			continue
		}
		out.OOMKills = counter(p.dir, "memory.oom_control", "oom_kill")
		// Its failcnt stays 0 on some kernels.
		out.AtLimit = counter(p.dir, "memory.max_usage_in_bytes", "")+batch >= counter(p.dir, "memory.limit_in_bytes", "")
	}
	return out
}

// batch is how far below a limit the kernel's count may stay when it was reached: it
// counts 64 pages a CPU ahead; bytes.
const batch = 1 << 20

// counter is the figure of a line in a file of lines "name figure", or of one figure.
func counter(dir, file, name string) uint64 {
	raw, _ := os.ReadFile(filepath.Join(dir, file))
	for line := range strings.Lines(string(raw)) {
		key, figure, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			key, figure = "", key
		}
		if key == name {
			n, _ := strconv.ParseUint(figure, 10, 64)
			return n
		}
	}
	return 0
}

// Memory is the group's present memory, in bytes, without the reclaimable part
// (inactive page cache); 0 when it isn't counted.
func (g Group) Memory() uint64 {
	for _, p := range g.places {
		if !p.has("memory") {
			continue
		}
		usage, inactive := counter(p.dir, "memory.usage_in_bytes", ""), counter(p.dir, "memory.stat", "total_inactive_file")
		if p.version() == 2 {
			usage, inactive = counter(p.dir, "memory.current", ""), counter(p.dir, "memory.stat", "inactive_file")
		}
		return usage - min(usage, inactive)
	}
	return 0
}

// There reports whether any of the folders is there.
func (g Group) There() bool {
	for _, p := range g.places {
		if _, err := os.Stat(p.dir); err == nil {
			return true
		}
	}
	return false
}
