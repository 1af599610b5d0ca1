package storage

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// uses is a reading that a test sets.
type uses struct {
	mu  sync.Mutex
	now []node.PoolUse
	// sums counts how often a pool's promises were summed up.
	sums int
}

func (u *uses) set(now ...node.PoolUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = now
}

func (u *uses) read(reserved map[string]uint64) (out []node.PoolUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, use := range u.now {
		if _, known := reserved[use.Name]; !known {
			reserved[use.Name] = use.Reserved
			u.sums++
		}
		use.Reserved = reserved[use.Name]
		out = append(out, use)
	}
	return out
}

// TestWatchSumsUpPromisesAfterChanges holds that a look sums up what is promised after each change of the module's, and otherwise once in
// a good minute: the labels of hundreds of volumes take long to read.
func TestWatchSumsUpPromisesAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u uses
		u.set(node.PoolUse{Name: "a", Reserved: 1})
		changed, out := newSignal(), make(chan node.PoolUse)
		go watch{read: u.read, changed: changed, closed: make(chan struct{}), out: out}.run(t.Context())
		want := func(reserved uint64, sums int) {
			t.Helper()
			got := <-out
			synctest.Wait()
			u.mu.Lock()
			defer u.mu.Unlock()
			if got.Reserved != reserved || u.sums != sums {
				t.Errorf("%d bytes are promised after %d sums, must be %d after %d", got.Reserved, u.sums, reserved, sums)
			}
		}
		want(1, 1)
		synctest.Wait()
		u.set(node.PoolUse{Name: "a", Reserved: 2})
		changed.fire()
		want(2, 2)
		// Somebody else's change of the labels.
		synctest.Wait()
		u.set(node.PoolUse{Name: "a", Reserved: 3})
		start := time.Now()
		want(2, 2) // after a minute of silence
		want(3, 3)
		if passed := time.Since(start); passed > repeatEvery+2*lookEvery {
			t.Errorf("that was seen after %s", passed)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u uses
		u.set(node.PoolUse{Name: "a", Used: 1}, node.PoolUse{Name: "b", Used: 1})
		changed, out := newSignal(), make(chan node.PoolUse)
		ctx, cancel := context.WithCancel(t.Context())
		go watch{read: u.read, changed: changed, closed: make(chan struct{}), out: out}.run(ctx)
		start := time.Now()
		want := func(name string, used uint64, at time.Duration) {
			t.Helper()
			got := <-out
			if passed := time.Since(start); got.Name != name || got.Used != used || passed != at {
				t.Errorf("%+v came after %s, want %s with %d after %s", got, passed, name, used, at)
			}
		}
		// At once, then silence for a minute.
		want("a", 1, 0)
		want("b", 1, 0)
		want("a", 1, time.Minute)
		want("b", 1, time.Minute)
		// What others write is seen at the next look, our own changes at once.
		synctest.Wait()
		u.set(node.PoolUse{Name: "a", Used: 2}, node.PoolUse{Name: "b", Used: 1})
		want("a", 2, time.Minute+lookEvery)
		synctest.Wait()
		u.set(node.PoolUse{Name: "a", Used: 2}, node.PoolUse{Name: "b", Used: 3})
		changed.fire()
		want("b", 3, time.Minute+lookEvery)
		cancel()
		if _, open := <-out; open {
			t.Error("the stream is open after its context ended")
		}
	})
}

// TestWatchMissesNoChange holds that a change is seen at once also when it comes while the reader is slow, and together with a look.
func TestWatchMissesNoChange(t *testing.T) {
	for range 20 { // select takes either by chance
		synctest.Test(t, func(t *testing.T) {
			var u uses
			u.set(node.PoolUse{Name: "a", Used: 1, Reserved: 1}, node.PoolUse{Name: "b", Used: 1})
			changed, out := newSignal(), make(chan node.PoolUse)
			go watch{read: u.read, changed: changed, closed: make(chan struct{}), out: out}.run(t.Context())
			<-out
			time.Sleep(lookEvery + time.Second) // a look is due while b waits for its reader
			u.set(node.PoolUse{Name: "a", Used: 1, Reserved: 2}, node.PoolUse{Name: "b", Used: 1})
			changed.fire()
			<-out
			start := time.Now()
			if got := <-out; got.Reserved != 2 || time.Since(start) > 0 {
				t.Errorf("%+v came after %s, must have 2 bytes promised, at once", got, time.Since(start))
			}
		})
	}
}

// TestWatchWithoutReader wants a stream that nobody reads to end all the same.
func TestWatchWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u uses
		u.set(node.PoolUse{Name: "a"})
		closed, out := make(chan struct{}), make(chan node.PoolUse)
		go watch{read: u.read, changed: newSignal(), closed: closed, out: out}.run(t.Context())
		synctest.Wait()
		close(closed)
		synctest.Wait()
		if _, open := <-out; open {
			t.Error("the stream is open after the module was closed")
		}
	})
}
