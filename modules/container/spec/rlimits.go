package spec

import (
	"fmt"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rlimits are the limits of each process, set explicitly, not inherited. A lower
// hard limit of the host holds: raising it takes a capability which the runtime
// may not have.
func rlimits(pids uint64, host []specs.POSIXRlimit) []specs.POSIXRlimit {
	out := []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Soft: 65_536, Hard: 1 << 20},
		{Type: "RLIMIT_NPROC", Soft: pids, Hard: pids},
		{Type: "RLIMIT_CORE"},
		{Type: "RLIMIT_MEMLOCK", Soft: 8 << 20, Hard: 8 << 20},
		{Type: "RLIMIT_MSGQUEUE", Soft: 819_200, Hard: 819_200},
		{Type: "RLIMIT_SIGPENDING", Soft: pids, Hard: pids},
		{Type: "RLIMIT_STACK", Soft: stackSize, Hard: unix.RLIM_INFINITY},
		{Type: "RLIMIT_NICE"},
		{Type: "RLIMIT_RTPRIO"},
	}
	most := map[string]uint64{}
	for _, h := range host {
		most[h.Type] = h.Hard
	}
	for i := range out {
		if hard, known := most[out[i].Type]; known {
			out[i].Hard = min(out[i].Hard, hard)
			out[i].Soft = min(out[i].Soft, hard)
		}
	}
	return out
}

// SetLimits are lines of a shell script that set the limits that can be set, before the script execs
// the runtime; none on machines that need none. A container's user
// namespace belongs to the container's own IDs, so that the kernel's counts by
// owner are the tenant's. Only its owner, or a process with CAP_SYS_RESOURCE, may
// set limits in it; without that capability containers inherit them from
// the runtime, which has them from here. Its processes are bounded by DefaultPIDs
// then, whatever Config says, beside the bound of the cgroup.
func (h Host) SetLimits() []string {
	if h.SetRlimits {
		return nil
	}
	lines := []string{"# What the runtime may not set in a container, it inherits."}
	for _, l := range rlimits(DefaultPIDs, h.Rlimits) {
		flag, unit := "", uint64(1)
		switch l.Type {
		case "RLIMIT_NOFILE":
			flag = "n"
		case "RLIMIT_NPROC":
			flag = "p"
		case "RLIMIT_CORE":
			flag, unit = "c", 512
		case "RLIMIT_MEMLOCK":
			flag, unit = "l", 1024
		default:
			continue
		}
		lines = append(lines, fmt.Sprintf("ulimit -S -%s %d && ulimit -H -%s %d || exit 1", flag, l.Soft/unit, flag, l.Hard/unit))
	}
	return lines
}

// stackSize is the soft limit of stacks; a quarter of it is room for arguments
// and environment.
const stackSize = 8 << 20

// scoreStep is by how much containers are likelier to be ended than the agent
// when the whole machine is out of memory, of 1000.
const scoreStep, maxScore = 500, 1000

func (h Host) containerScore() int { return min(h.OOMScore+scoreStep, maxScore) }
