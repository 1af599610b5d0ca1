package spec

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rlimits are those of each process, stated whoever starts it. Where the host's
// hard limit is lower that one holds: raising it takes a capability which the
// runtime may not have.
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

// stackSize is the soft limit of stacks; a quarter of it is room for arguments
// and environment.
const stackSize = 8 << 20

// scoreStep is by how much containers are likelier to be ended than the agent
// when the whole machine is out of memory, of 1000.
const scoreStep, maxScore = 500, 1000

func (h Host) containerScore() int { return min(h.OOMScore+scoreStep, maxScore) }
