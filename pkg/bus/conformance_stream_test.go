package bus_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
)

func TestStreamYieldsEvents(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		events, cancel := stream(t, w.client(), "Ticks")
		last := nextTick(t, events, time.Minute)
		for range 20 {
			n := nextTick(t, events, time.Minute)
			if n != last+1 {
				t.Fatalf("after %d came %d", last, n)
			}
			last = n
		}
		cancel()
		within(t, slack, "the end of a cancelled stream", func() {
			for range events {
			}
		})
	})
}

func TestStreamEndsWithItsContextAtOnce(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		events, cancel := stream(t, w.client(), "Quiet")
		within(t, slack, "cancelling a quiet stream", func() {
			cancel()
			if _, open := <-events; open {
				t.Error("an event came")
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := w.client().Stream(ctx, module, object(), "Quiet"); err == nil {
			t.Error("a stream on a context that has ended was opened")
		}
	})
}

func TestCancelledStreamsHoldNothing(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		if _, err := call[string](timeout(t, 5*time.Second), c, "Echo", ""); err != nil {
			t.Fatal(err)
		}
		const streams = 50
		goroutines, connections := runtime.NumGoroutine(), w.connections()
		var ends []context.CancelFunc
		for range streams {
			_, cancel := stream(t, c, "Quiet")
			ends = append(ends, cancel)
		}
		if n := c.Readers(); n != streams {
			t.Fatalf("%d readers are held of %d streams", n, streams)
		}
		for _, end := range ends {
			end()
		}
		eventually(t, 10*time.Second, "no reader is held", func() bool { return c.Readers() == 0 })
		// The server's own goroutines and connections may still have been
		// starting at the count; one for each stream would be 50.
		const starting = 9
		eventually(t, 10*time.Second, "goroutines are as before", func() bool { return runtime.NumGoroutine() <= goroutines+starting })
		eventually(t, 10*time.Second, "connections are as before", func() bool { return w.connections() <= connections+starting })
	})
}

func (w *world) connections() int {
	if w.redis == nil {
		return 0
	}
	return w.redis.connections()
}

func TestHundredAndOneStreamsAtOnce(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		var all []<-chan zbus.Event
		for range 101 {
			events, _ := stream(t, c, "Ticks")
			all = append(all, events)
		}
		for _, events := range all {
			nextTick(t, events, time.Minute)
		}
		if _, err := call[string](timeout(t, 5*time.Second), c, "Echo", "still"); err != nil {
			t.Errorf("a call beside 101 streams: %v", err)
		}
		if n := w.connections(); n > 12 {
			t.Errorf("%d connections, at most 12 are wanted", n)
		}
	})
}

func TestSlowReaderGetsTheNewest(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl, _ := w.serve()
		c := w.client()
		slow, _ := stream(t, c, "Burst")
		quick, _ := stream(t, c, "Burst")
		const all = 500
		seen := make(chan int64, 1)
		go func() {
			var last int64
			for last < all {
				last = nextTick(t, quick, 10*time.Second)
			}
			seen <- last
		}()
		for n := range int64(all) {
			impl.burst <- tick{n + 1}
		}
		if last := <-seen; last != all {
			t.Fatalf("the quick reader saw %d at last", last)
		}
		first := nextTick(t, slow, 5*time.Second)
		last, count := first, 1
		for last < all {
			n := nextTick(t, slow, 5*time.Second)
			if n <= last {
				t.Fatalf("after %d came %d", last, n)
			}
			last = n
			count++
		}
		if count > 200 {
			t.Errorf("the slow reader got %d of %d events: they pile up", count, all)
		}
		if w.name == "in process" && c.Stats().DroppedEvents == 0 {
			t.Error("no dropped event was counted")
		}
	})
}

func TestTwoReadersOfOneStreamEndOneByOne(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		for range 20 {
			a, cancelA := stream(t, c, "Ticks")
			b, cancelB := stream(t, c, "Ticks")
			nextTick(t, a, 5*time.Second)
			cancelA()
			drain(b)
			nextTick(t, b, 5*time.Second)
			cancelB()
		}
	})
}

// A reader that comes as the last one leaves: the subscription may still hold,
// or be ending.
func TestStreamOpenedWhileTheLastOneEnds(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		stream(t, c, "Quiet") // keeps the connection
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
					events, err := c.Stream(ctx, module, object(), "Ticks")
					cancel()
					if err != nil {
						t.Errorf("cannot open it: %v", err)
						return
					}
					for range events {
					}
				}
			})
		}
		wg.Wait()
		events, _ := stream(t, c, "Ticks")
		nextTick(t, events, time.Minute)
	})
}

// TestALaterReaderGetsTheLastEventAtOnce, though nothing more is published: a reader that
// comes while a node starts doesn't wait for the next change. Redis keeps nothing; there
// it is so for further readers of one process.
func TestALaterReaderGetsTheLastEventAtOnce(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl, _ := w.serve()
		c := w.client()
		first, _ := stream(t, c, "Burst")
		impl.burst <- tick{1}
		impl.burst <- tick{2}
		for nextTick(t, first, 5*time.Second) != 2 {
		}
		later, _ := stream(t, c, "Burst")
		if n := nextTick(t, later, 5*time.Second); n != 2 {
			t.Errorf("a further reader of the client got %d", n)
		}
		if w.name == "redis" {
			return
		}
		other, _ := stream(t, w.client(), "Burst")
		if n := nextTick(t, other, 5*time.Second); n != 2 {
			t.Errorf("another client got %d", n)
		}
		impl.burst <- tick{3}
		for _, events := range []<-chan zbus.Event{first, later, other} {
			if n := nextTick(t, events, time.Minute); n != 3 {
				t.Errorf("then came %d", n)
			}
		}
	})
}

// TestALastEventEndsWithItsServer: nobody gets the last event of a server that has ended.
func TestALastEventEndsWithItsServer(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		stop := background(t, w.server(newWorker()).Run)
		events, cancel := stream(t, w.client(), "Ticks")
		nextTick(t, events, time.Minute)
		cancel()
		stop()
		later, _ := stream(t, w.client(), "Ticks")
		select {
		case e := <-later:
			t.Errorf("%x came", e)
		case <-time.After(100 * time.Millisecond):
		}
	})
}
