package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus"
)

// mixed has a stream with some events that can't be encoded.
type mixed interface {
	Mixed(ctx context.Context) <-chan any
}

type mixes struct{}

func (mixes) Mixed(ctx context.Context) <-chan any {
	out := make(chan any)
	go func() {
		defer close(out)
		for _, v := range []any{make(chan int), make([]byte, bus.MaxFrame), map[string]int{"n": 1}} {
			select {
			case out <- v:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return out
}

// flaky has a stream that fails in every way, then works.
type flaky interface {
	Flaky(ctx context.Context) <-chan tick
}

type fails struct{ times int }

func (f *fails) Flaky(context.Context) <-chan tick {
	f.times++
	switch f.times {
	case 1:
		panic("no stream today")
	case 2:
		return nil
	case 3:
		closed := make(chan tick)
		close(closed)
		return closed
	}
	// Never closed, also not after the context's end.
	out := make(chan tick, 1)
	out <- tick{int64(f.times)}
	return out
}

func TestStreamThatEndsByItselfIsStartedAgain(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	logs := &logBuffer{}
	s, err := bus.NewServer(b, module, bus.Options{Log: zerolog.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register[flaky](s, object(), &fails{}); err != nil {
		t.Fatal(err)
	}
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	events, _ := stream(t, c, "Flaky")
	stop := background(t, s.Run)
	if n := nextTick(t, events, time.Minute); n != 4 {
		t.Errorf("the event is of run %d", n)
	}
	within(t, slack, "stopping with a stream that isn't closed", stop)
	if log := logs.String(); !strings.Contains(log, "no stream today") || strings.Count(log, "a stream ended by itself") != 1 {
		t.Errorf("the log: %s", log)
	}
}

func TestStreamsRunOnlyWhileTheServerRuns(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl := newWorker()
		s := w.server(impl)
		events, _ := stream(t, w.client(), "Ticks")
		time.Sleep(30 * time.Millisecond)
		if impl.ticking.Load() != 0 || len(events) != 0 {
			t.Fatal("a stream runs before the server")
		}
		stop := background(t, s.Run)
		nextTick(t, events, time.Minute)
		stop()
		eventually(t, time.Minute, "no stream runs after the server", func() bool { return impl.ticking.Load() == 0 })
	})
}
