package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestBurst(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name            string
		allocated, live uint64
		want            bool
	}{
		{"nothing", 0, 4 * mib, false},
		{"less than the least", 2*mib - 1, 0, false},
		{"the least, with little in use", 2 * mib, 4 * mib, true},
		{"the least, with much in use", 2 * mib, 40 * mib, false},
		{"half of what is in use", 20 * mib, 40 * mib, true},
	} {
		if got := burst(c.allocated, c.live); got != c.want {
			t.Errorf("%s: burst is %t, must be %t", c.name, got, c.want)
		}
	}
}

// held is the heap's memory that the system has given, in bytes. With the race detector RssAnon has more that stays.
func held() (sum uint64) {
	for _, n := range read("/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes") {
		sum += n
	}
	return sum
}

// TestKeepLowGivesBack holds that a burst's memory leaves the process.
func TestKeepLowGivesBack(t *testing.T) {
	const burst = 128 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		KeepLow(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	before := held()
	used := make([]byte, burst)
	if full := held(); full < before+burst/2 {
		t.Fatalf("the burst isn't in memory: %d bytes before, %d with it", before, full)
	}
	runtime.KeepAlive(used)
	for deadline := time.Now().Add(2 * time.Minute); held() > before+burst/2; time.Sleep(100 * time.Millisecond) {
		used = make([]byte, 1<<20) // the burst goes on
		runtime.KeepAlive(used)
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still held, %d were before the burst of %d", held(), before, burst)
		}
	}
}

func TestAnonymous(t *testing.T) {
	if got := Anonymous(); got < 1<<20 || got > 1<<40 {
		t.Errorf("the anonymous memory is %d bytes", got)
	}
}
