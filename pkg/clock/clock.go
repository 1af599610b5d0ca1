package clock

import (
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Clock is the source of time: the wall clock, the time since the machine
// booted, and timers. System is the real one, Fake the one of tests.
type Clock interface {
	// Now is the wall clock, without a monotonic reading.
	Now() time.Time
	// Boot is the time since the machine booted, suspended time included. It
	// never jumps.
	Boot() time.Duration
	// NewTimer makes a timer that fires once after d.
	NewTimer(d time.Duration) Timer
	// After is NewTimer's channel, for a timer that is never stopped.
	After(d time.Duration) <-chan time.Time
}

// Timer fires once.
type Timer interface {
	C() <-chan time.Time
	// Stop reports whether it has kept the timer from firing.
	Stop() bool
}

// System is the machine's clock.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now().Round(0) }

// Boot implements Clock by CLOCK_BOOTTIME.
func (System) Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// It can't fail on a kernel that runs Go; time stands still if it does.
		return 0
	}
	return time.Duration(ts.Nano())
}

// NewTimer implements Clock.
func (System) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// After implements Clock.
func (System) After(d time.Duration) <-chan time.Time { return time.After(d) }

type systemTimer struct{ timer *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.timer.C }
func (t systemTimer) Stop() bool          { return t.timer.Stop() }

// BootID is the kernel's name for this boot of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), errors.Wrap(err, "cannot read the boot ID")
}

// Synced reports whether the kernel says that something (an NTP client) keeps
// its clock right: adjtimex without STA_UNSYNC. Setting the clock by hand
// raises that flag. False when the kernel doesn't tell.
func Synced() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
