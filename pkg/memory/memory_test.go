package memory

import (
	"context"
	"math"
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

func TestLittered(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name        string
		live, taken uint64
		want        bool
	}{
		{"nothing", 4 * mib, 4 * mib, false},
		{"less than the least", 4 * mib, 5*mib - 1, false},
		{"the least, beside little", 4 * mib, 5 * mib, true},
		{"the least, beside much", 40 * mib, 41 * mib, false},
		{"an eighth of what is in use", 40 * mib, 45 * mib, true},
		{"objects that the collector took for live ones", 5 * mib, 4 * mib, false},
	} {
		if got := littered(c.live, c.taken); got != c.want {
			t.Errorf("%s: littered is %t, must be %t", c.name, got, c.want)
		}
	}
}

// TestPercent holds that the garbage that may gather is bounded by half of what is in use, or by 4 MiB, or by the operator's own GOGC.
func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		live, most, want uint64
	}{
		{"nothing is in use", 0, 100, 100},
		{"little is in use", 3 * mib, 100, 100},
		{"as much as may be garbage", 4 * mib, 100, 100},
		{"more than that", 6 * mib, 100, 60},
		{"much is in use", 15 * mib, 100, 50},
		{"the operator wants less garbage", 15 * mib, 20, 20},
		{"the operator wants more garbage", 15 * mib, 400, 400},
		{"the operator wants no collections", 15 * mib, math.MaxUint64, math.MaxUint64},
	} {
		if got := percent(c.live, c.most); got != c.want {
			t.Errorf("%s: %d, must be %d", c.name, got, c.want)
		}
	}
}

// TestACalmTime holds that what gathers slowly is collected too, and not again and again.
func TestACalmTime(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	runtime.GC()
	cycles := func() uint64 { return read("/gc/cycles/total:gc-cycles")[0] }
	k := keeper{percent: math.MaxUint64, set: math.MaxUint64, collected: time.Now()}
	before := cycles()
	look := func() {
		k.allocated = allocations() // it is calm
		k.look()
	}
	runtime.KeepAlive(make([]byte, 64<<20))
	if look(); cycles() != before {
		t.Error("it collects soon after a collection")
	}
	k.collected = time.Now().Add(-calmEvery)
	if look(); cycles() == before || held() > 64<<20 {
		t.Errorf("%d collections, %d bytes are held", cycles()-before, held())
	}
	k.collected, before = time.Now().Add(-calmEvery), cycles()
	if look(); cycles() != before {
		t.Error("it collects where there is no garbage")
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
