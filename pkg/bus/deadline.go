package bus

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names the present boot of this machine; empty when unknown, and then no
// deadline is sent.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// monotonicNow is the machine's monotonic clock in nanoseconds, the same for
// all processes. The wall clock is unfit: it may jump by years while a request
// waits, and nothing may expire by that.
func monotonicNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// left is how long the caller still waits for r; known is false when r doesn't
// say so, or was made before a reboot or on another machine.
func (r *request) left(boot string) (left time.Duration, known bool) {
	now := monotonicNow()
	if r.Deadline <= 0 || boot == "" || r.Boot != boot || now == 0 {
		return 0, false
	}
	return time.Duration(r.Deadline - now), true
}
