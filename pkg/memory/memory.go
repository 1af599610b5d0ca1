// Package memory returns to the system what a process's heap doesn't need any longer: Go's garbage collector lets garbage gather until
// there is as much of it as of what is in use, and keeps for minutes what a burst needed.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// GiveBack returns a burst's free memory to the system, until ctx is done, whenever
// there are more than worth bytes of it.
func GiveBack(ctx context.Context, every time.Duration, worth uint64) {
	repeat(ctx, every, func() { GiveBackNow(false, worth) })
}

// GiveBackNow does that once; with must, whatever amount is free.
func GiveBackNow(must bool, worth uint64) {
	free := read("/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes")
	if must || free[0]+free[1] > worth {
		debug.FreeOSMemory()
	}
}

// What KeepLow goes by.
const (
	// lookEvery is how long the memory of a burst may be kept.
	lookEvery = 5 * time.Second
	// leastBurst is what may be allocated in that time in any case, in bytes.
	leastBurst = 2 << 20
)

// KeepLow collects a process's garbage and returns its free memory: at once, and until ctx is done after each 5 seconds in which half as
// much was allocated as is in use, and the 5 seconds after these. After a burst, as the start is one, a process then holds little more
// than what is in use, where by itself it would hold twice that for minutes. In a calm time it does nothing; under load,
// which has collections of its own all the time, it adds one each 5 seconds.
func KeepLow(ctx context.Context) {
	allocated, busy := allocations(), true
	debug.FreeOSMemory()
	repeat(ctx, lookEvery, func() {
		was, before := busy, allocated
		allocated = allocations()
		busy = burst(allocated-before, read("/gc/heap/live:bytes")[0])
		if busy || was {
			debug.FreeOSMemory()
		}
	})
}

// repeat calls look again and again until ctx is done.
func repeat(ctx context.Context, every time.Duration, look func()) {
	due := time.NewTimer(backoff.Together(every))
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			look()
			due.Reset(backoff.Together(every))
		}
	}
}

// burst reports whether so much was allocated, in bytes, that its garbage is worth a collection, whose cost is proportional to what is in use.
func burst(allocated, live uint64) bool { return allocated >= max(leastBurst, live/2) }

// allocations is how much was allocated on the heap since the process started, in bytes.
func allocations() uint64 { return read("/gc/heap/allocs:bytes")[0] }

// read reads metrics of the runtime, in bytes.
func read(names ...string) []uint64 {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	values := make([]uint64, len(names))
	for i, s := range samples {
		values[i] = s.Value.Uint64()
	}
	return values
}

// Anonymous is this process's anonymous memory, RssAnon, in bytes; 0 if it is unknown.
func Anonymous() uint64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if value, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
