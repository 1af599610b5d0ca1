// Package watchdog tells the service manager that a process goes on, as long as it does: WATCHDOG=1 of systemd's WatchdogSec. The service
// manager ends a process that it hasn't heard of for so long.
package watchdog

import (
	"context"
	"time"
)

// A process is asked this many times, and told of as often, in the time that the service manager waits.
const often = 3

// Watchdog tells of one process.
type Watchdog struct {
	// Every is how long the service manager waits.
	Every time.Duration
	// Check returns an error while the process doesn't go on. It has a third of Every at most.
	Check func(ctx context.Context) error
	// Tell tells the service manager that the process goes on; Fault is called once when it doesn't, with the reason.
	Tell  func()
	Fault func(err error)
}

// Run tells until ctx is done.
func (w Watchdog) Run(ctx context.Context) error {
	tick := time.NewTicker(w.Every / often)
	defer tick.Stop()
	faulty := false
	for {
		asking, cancel := context.WithTimeout(ctx, w.Every/often)
		err := w.Check(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			w.Tell()
		case !faulty:
			w.Fault(err)
		}
		faulty = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
