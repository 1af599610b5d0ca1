package carrier

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// The defaults of how much memory a carrier may use, in bytes.
const (
	DefaultMemoryLimit = 64 << 20
	DefaultHardLimit   = 256 << 20
)

// limitHeap tells the garbage collector how much there may be. The buffers
// that every device reads into are never garbage, and most of them never
// touched: they come on top, else the collector would run all the time.
func limitHeap(limit uint64, t Tuning, devices int) {
	const readers = 3 // the link, IPv4, IPv6
	perDevice := uint64(readers*(t.Batch<<16+conn128*slotSize) + 2*coalesced<<16)
	debug.SetMemoryLimit(int64(limit + uint64(devices)*perDevice))
}

// conn128 is how many slots a reader has.
const conn128 = 128

// giveBack returns memory to the system that a burst left behind, until ctx is done.
func giveBack(ctx context.Context, every time.Duration) {
	const worth = 8 << 20
	tick := time.NewTicker(every)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			metrics.Read(samples)
			if samples[0].Value.Uint64()+samples[1].Value.Uint64() > worth {
				debug.FreeOSMemory()
			}
		}
	}
}

// rssAnon is how much memory of its own this process has, in bytes.
func rssAnon() uint64 {
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
