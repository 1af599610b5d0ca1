package monitor

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// seedHost is monitor.host in the seed's layout.
type seedHost struct{ m *Module }

// Uptime streams the time since boot, including suspended time.
func (s seedHost) Uptime(ctx context.Context) <-chan time.Duration {
	return stream(ctx, s.m, "uptime", func(context.Context) (time.Duration, bool, error) {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return 0, false, errors.Wrap(err, "cannot read the time since boot")
		}
		return time.Duration(t.Nano()), true, nil
	})
}

// SeedSystem returns the bus object monitor.system, version 0.0.1.
func (m *Module) SeedSystem() node.SeedSystemMonitor { return seedSystem{m} }

// SeedHost returns the bus object monitor.host, version 0.0.1.
func (m *Module) SeedHost() node.SeedHostMonitor { return seedHost{m} }
