package groups

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// The node keeps an eighth of the machine's processes and threads for itself.
const keptPIDs = 8

// leastCeiling is the least memory of all containers together that is worth a
// ceiling: below it the settings don't fit the machine.
const leastCeiling = 64 << 20

// Weight is the processor share of all containers together: ten times another program's and five
// times a carrier's, because work for strangers comes after what containers were promised. The agent,
// which runs seldom and shortly, has twice as much. A container's share of it grows with its cores.
const Weight = 1000

// Bound limits what all containers together take of memory, processes and threads: beyond it
// a container ends, never a part of the node. reserve is the memory in bytes that is left to the
// node; 0 sets no limit. It may be called while containers run.
func (g Groups) Bound(reserve uint64) error {
	if reserve == 0 {
		return nil
	}
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return errors.Wrap(err, "cannot tell how much memory the machine has")
	}
	total := uint64(machine.Totalram) * uint64(machine.Unit)
	if total < reserve+leastCeiling {
		return errors.Errorf("cannot keep %d bytes of memory for the node: the machine has %d", reserve, total)
	}
	all, err := cgroup.At(g.Parent)
	if err == nil {
		err = all.Make()
	}
	if err != nil {
		return errors.Wrap(err, "cannot make the control group of all containers")
	}
	if missing := all.Limit(cgroup.Limits{Memory: total - reserve, PIDs: mostPIDs() / keptPIDs * (keptPIDs - 1)}); len(missing) > 0 {
		return errors.Errorf("cannot limit what all containers take together: this machine can't hold their %s", strings.Join(missing, ", "))
	}
	// Without it containers have every program's share.
	_ = all.Limit(cgroup.Limits{CPUWeight: Weight})
	return nil
}

// mostPIDs is the machine's limit of processes and threads.
func mostPIDs() uint64 {
	most := uint64(32768)
	for i, name := range []string{"pid_max", "threads-max"} {
		raw, err := os.ReadFile(filepath.Join("/proc/sys/kernel", name))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil && (i == 0 || n < most) {
			most = n
		}
	}
	return most
}
