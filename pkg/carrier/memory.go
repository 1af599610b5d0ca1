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

// GiveBack returns a burst's free memory to the system, until ctx is done, whenever
// there are more than worth bytes of it.
func GiveBack(ctx context.Context, every time.Duration, worth uint64) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			GiveBackNow(false, worth)
		}
	}
}

// GiveBackNow does that once; with must, whatever amount is free.
func GiveBackNow(must bool, worth uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	if must || samples[0].Value.Uint64()+samples[1].Value.Uint64() > worth {
		debug.FreeOSMemory()
	}
}

// RSSAnon is this process's anonymous memory, in bytes.
func RSSAnon() uint64 {
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
