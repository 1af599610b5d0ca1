package watchdog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/watchdog"
)

// The service manager hears of a process only while it goes on.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		var told, faults atomic.Int32
		var last time.Time
		ctx, cancel := context.WithCancel(t.Context())
		w := watchdog.Watchdog{
			Every: 30 * time.Second,
			Check: func(context.Context) error {
				if stuck.Load() {
					return errors.New("it stands")
				}
				return nil
			},
			Tell: func() {
				if gone := time.Since(last); told.Add(1) > 1 && gone > 15*time.Second {
					t.Errorf("told after %s", gone)
				}
				last = time.Now()
			},
			Fault: func(error) { faults.Add(1) },
		}
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := told.Load(); n < 20 || faults.Load() != 0 {
			t.Errorf("told %d times in five minutes, %d faults", n, faults.Load())
		}
		stuck.Store(true)
		before := told.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if told.Load() != before || faults.Load() != 1 {
			t.Errorf("told %d times while it stands, %d faults", told.Load()-before, faults.Load())
		}
		last = time.Now()
		stuck.Store(false)
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil || told.Load() < before+5 {
			t.Errorf("%v, told %d times", err, told.Load()-before)
		}
	})
}
