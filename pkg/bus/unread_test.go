package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/bus"
)

// TestAStreamRunsOnlyWhileItIsRead has readers come and go in any order: the stream runs once while there is one, and rests while there
// is none; and a reader who comes after that gets no event of the time before.
func TestAStreamRunsOnlyWhileItIsRead(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	impl := newWorker()
	s, err := bus.NewServer(b, module, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register[works](s, object(), impl); err != nil {
		t.Fatal(err)
	}
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	stop := background(t, s.Run)
	defer stop()
	rapid.Check(t, func(r *rapid.T) {
		type reader struct {
			events <-chan zbus.Event
			leave  context.CancelFunc
		}
		var readers []reader
		defer func() {
			for _, reader := range readers {
				reader.leave()
			}
		}()
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			if len(readers) == 0 || rapid.Bool().Draw(r, "come") {
				rested := int64(0)
				if len(readers) == 0 {
					eventually(t, time.Minute, "the stream rests", func() bool { return impl.ticking.Load() == 0 })
					rested = impl.ticks.Load()
				}
				events, leave := stream(t, c, "Ticks")
				readers = append(readers, reader{events, leave})
				if n := nextTick(t, events, time.Minute); n <= rested {
					r.Fatalf("the first event is number %d, and the stream rested at %d", n, rested)
				}
			} else {
				i := rapid.IntRange(0, len(readers)-1).Draw(r, "leaves")
				readers[i].leave()
				readers = append(readers[:i], readers[i+1:]...)
			}
			runs := int64(min(1, len(readers)))
			eventually(t, time.Minute, "it runs while it is read", func() bool { return impl.ticking.Load() == runs })
			for _, reader := range readers {
				drain(reader.events)
				nextTick(t, reader.events, time.Minute)
			}
		}
	})
}
