package qemu

import (
	"context"
	"runtime"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

const (
	// clockSpan is how long the counter is measured, twice; clockTries how often, where both differ by more than a clockError-th.
	clockSpan  = 50 * time.Millisecond
	clockTries = 10
	clockError = 2000
	// readTries are the readings of which the quickest counts: between the others the thread was stopped.
	readTries = 20
)

// ClockKHz is the rate of the clock of an accelerator's guests in kHz, which Machine.CommandLine tells a guest's kernel; 0 where that needs
// none. Under TCG it is the rate of this machine's time stamp counter, which the guest reads (QEMU, cpu_get_host_ticks). It is measured, in a
// tenth of a second: the frequency in /proc/cpuinfo is the processor's at the moment, which on most machines is another.
func ClockKHz(ctx context.Context, a Accelerator) (uint64, error) {
	if a != TCG {
		return 0, nil
	}
	for range clockTries {
		var at [3]clocks
		for i := range at {
			at[i] = readClocks()
			if i == len(at)-1 {
				break
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(clockSpan):
			}
		}
		first, second := rate(at[0], at[1]), rate(at[1], at[2])
		if first > 0 && second > 0 && max(first, second)-min(first, second) <= first/clockError {
			return rate(at[0], at[2]), nil
		}
	}
	return 0, errors.New("cannot emulate VMs: this machine has no time stamp counter that runs steadily")
}

// clocks are the time stamp counter, and the time since the machine's start in nanoseconds, at one moment.
type clocks struct{ counter, time uint64 }

// readClocks reads both on one processor, as closely together as it can.
func readClocks() clocks {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var best clocks
	least := uint64(1 << 63)
	for range readTries {
		before := rawTime()
		counter := timeStampCounter()
		after := rawTime()
		if took := after - before; took < least {
			least, best = took, clocks{counter, before + took/2}
		}
	}
	return best
}

// rawTime is the kernel's time since the machine's start, in nanoseconds, which nobody adjusts.
func rawTime() uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now) != nil {
		return 0
	}
	return uint64(now.Nano())
}

// rate is the counter's rate between two moments, in kHz; 0 where it can't be told.
func rate(from, to clocks) uint64 {
	if to.time <= from.time || to.counter <= from.counter {
		return 0
	}
	return (to.counter - from.counter) * uint64(time.Millisecond) / (to.time - from.time)
}
