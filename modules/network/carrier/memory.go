package carrier

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The defaults of the carrier's limits of memory, in bytes.
const (
	DefaultGarbage   = 32 << 20
	DefaultHardLimit = 384 << 20
)

// paceEvery is how often the collector is told how much there is. Until it is told, devices that are
// made meanwhile may have garbage as well.
const paceEvery = time.Second

// pace has the garbage collector run when about so much garbage has gathered, in bytes, until ctx is done.
// By itself it waits for as much garbage as there is in use, which is several MiB of buffers a
// device, most of them never touched: many devices could have garbage beyond the hard limit. A limit of the
// heap isn't the way, since what devices hold grows past any: the collector would then run all the time,
// and take half of the processors.
func pace(ctx context.Context, garbage uint64) {
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	was := 0
	for {
		metrics.Read(live)
		if now := percent(live[0].Value.Uint64(), garbage); now != was {
			debug.SetGCPercent(now) // stops the world
			was = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// percent is garbage as a percentage of the live heap: never more than the collector's own 100.
func percent(live, garbage uint64) int {
	if live <= garbage {
		return 100
	}
	return int(max(1, garbage*100/live))
}
