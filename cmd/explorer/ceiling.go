package main

import (
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/cgroup"
)

const (
	// defaultMemory is enough for the default of 50,000 long polls, of 16 KiB each without TLS and three
	// times that with it, and for all bodies and answers in progress; MiB.
	defaultMemory = 4096
	// leastMemory is twice the maximum of bodies and answers in progress; MiB.
	leastMemory = 512
	// weight is the CPU weight, as much as all containers of a node on the same machine together: more
	// would let strangers, whose requests it parses, take the CPU promised to containers.
	weight = 1000
)

// ceiling are the explorer's resource limits with so many MiB of memory, as docs/security.md has them.
func ceiling(memory uint64) cgroup.Limits {
	return cgroup.Limits{Memory: memory << 20, PIDs: 2048, IOWeight: 500, CPUWeight: weight}
}

// groupOf is the name of the control group of the explorer with that database.
func groupOf(db string) string {
	if path, err := filepath.Abs(db); err == nil {
		db = path
	}
	return cgroup.Name("explorer", db)
}

// confine applies this process's limits, and makes the garbage collector work harder before the kernel
// kills it. Without the right to make control groups, it runs without limits.
func confine(db string, l cgroup.Limits, log zerolog.Logger) *cgroup.Seat {
	name := groupOf(db)
	if left, err := cgroup.Beside(name); err == nil {
		left.Remove() // the group of a killed explorer, with its old limits
	}
	seat, err := cgroup.Settle(name, l)
	if err != nil {
		log.Info().Err(err).Msg("cannot limit the explorer's process")
		return &cgroup.Seat{}
	}
	if len(seat.Missing) > 0 {
		log.Info().Strs("missing", seat.Missing).Msg("some limits of the explorer can't be set on this machine")
	}
	if len(seat.Given) > 0 {
		log.Info().Strs("given", seat.Given).Msg("limits that are already set for this process are kept")
	}
	seat.BoundHeap()
	return seat
}
