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
	// calmEvery is the least time between two collections of which no burst is the cause.
	calmEvery = 30 * time.Second
	// leastFree is what may be free or garbage in a calm time in any case, in bytes.
	leastFree = 1 << 20
	// mostGarbage is what may gather, in bytes, before the collector runs by itself, where half of what is in use isn't more.
	mostGarbage = 4 << 20
)

// KeepLow keeps a process's memory near what it has in use, until ctx is done; by itself Go would hold twice that, and keep for minutes
// what a burst, as the start is one, has needed. It looks each 5 seconds, and
//
//   - after 5 seconds in which half as much was allocated as is in use, and once more after the 5 seconds that follow, collects the garbage and returns
//     all free memory: at most one collection more each 5 seconds;
//   - in a calm time does that once garbage and free memory are an eighth of what is in use, each 30 seconds at the most;
//   - sets how much garbage may gather before Go collects it by itself: half of what is in use, where Go's own measure is as much as that. Objects that
//     outlive a burst lie scattered over all the memory that it had, and keep it: the less it had, the less they keep.
func KeepLow(ctx context.Context) {
	k := keeper{percent: read("/gc/gogc:percent")[0], allocated: allocations(), busy: true}
	k.set = k.percent
	k.collect()
	repeat(ctx, lookEvery, k.look)
}

// keeper is KeepLow's memory.
type keeper struct {
	// percent is the process's own GOGC, set the one in force.
	percent, set uint64
	// allocated is what was allocated until the last look, in bytes, and busy whether there was a burst before it.
	allocated uint64
	busy      bool
	collected time.Time
}

func (k *keeper) look() {
	was, before := k.busy, k.allocated
	k.allocated = allocations()
	use := read("/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes")
	live, objects, free := use[0], use[1], use[2]
	k.busy = burst(k.allocated-before, live)
	if k.busy || was || time.Since(k.collected) >= calmEvery && littered(live, objects+free) {
		k.collect()
	}
}

func (k *keeper) collect() {
	debug.FreeOSMemory()
	k.collected = time.Now()
	scanned := read("/gc/heap/live:bytes", "/gc/scan/stack:bytes", "/gc/scan/globals:bytes")
	if next := percent(scanned[0]+scanned[1]+scanned[2], k.percent); next != k.set {
		k.set = next
		debug.SetGCPercent(int(next))
	}
}

// percent is the GOGC, at most that one, with which at most as much garbage gathers as may, beside so many bytes in use: those of the heap, the stacks
// and the variables, of which Go takes the percentage.
func percent(live, most uint64) uint64 {
	const coarse = 10 // a change of GOGC stops the process for a moment
	if live == 0 || most > 100 {
		return most
	}
	return min(most, max(50, 100*mostGarbage/live/coarse*coarse))
}

// littered reports whether so much of the memory that was taken, in bytes, is free or garbage, that a collection is worth it in a calm time.
func littered(live, taken uint64) bool {
	return taken >= live+max(leastFree, live/8)
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
