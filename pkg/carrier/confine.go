package carrier

import (
	"os"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/cgroup"
)

const (
	// mostPIDs is how many threads a carrier may have: Go starts one for each call
	// that waits for a disk, of which there are some hundred at most.
	mostPIDs = 1024
	// ioWeight prefers carriers to users' containers, which have 100: they write
	// little, and everybody waits for it.
	ioWeight = 500
	// cpuWeight is twice the weight of other programs, for the same reason.
	cpuWeight = 200
)

// Ceiling are the limits of a carrier with that much memory, in bytes.
func Ceiling(memory uint64) cgroup.Limits {
	return cgroup.Limits{Memory: memory, PIDs: mostPIDs, IOWeight: ioWeight, CPUWeight: cpuWeight}
}

// Confine moves this process to its own group and limits it there, as far as the
// machine can. A limit that can't be enforced is logged once.
func Confine(group string, l cgroup.Limits, log zerolog.Logger) {
	missing, failures := cgroup.Put(os.Getpid(), group, l)
	for _, err := range failures {
		log.Warn().Err(err).Msg("cannot give the carrier all of its control groups")
	}
	if len(missing) > 0 {
		log.Warn().Strs("missing", missing).Msg("this machine can't hold all limits of the carrier")
	}
}
