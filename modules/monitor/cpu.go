package monitor

import (
	"context"

	"github.com/pkg/errors"
	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/croft-edge/croft/pkg/node"
)

// cpuCounter computes shares from the times since boot. Each stream has its own,
// since a share is of the time since that stream's last reading.
type cpuCounter struct {
	busy, total float64
}

func (c *cpuCounter) read(ctx context.Context) (node.CPUUse, bool, error) {
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return node.CPUUse{}, false, errors.Wrap(err, "cannot read the processors")
	}
	cores, err := cpu.CountsWithContext(ctx, true)
	if err != nil {
		return node.CPUUse{}, false, errors.Wrap(err, "cannot count the processors")
	}
	use, found := c.next(times[0])
	use.Cores = uint64(cores)
	return use, found, nil
}

// next is the share since the previous times; found is false for the first times,
// and when no time has passed. User time includes guest time.
func (c *cpuCounter) next(t cpu.TimesStat) (use node.CPUUse, found bool) {
	busy := t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal
	total := busy + t.Idle + t.Iowait
	first, spent, passed := c.total == 0, busy-c.busy, total-c.total
	c.busy, c.total = busy, total
	if first || passed <= 0 {
		return node.CPUUse{}, false
	}
	return node.CPUUse{Percent: min(100, max(0, 100*spent/passed))}, true
}
