package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

func TestCallReturnsTheMethodsResults(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		ctx := timeout(t, 5*time.Second)
		sent := parcel{Name: "n", Items: []string{"a", "b"}, Size: 1 << 60, Raw: []byte{0, 1}, When: time.Unix(1, 2).UTC(), Span: time.Hour}
		got, err := call[parcel](ctx, c, "Send", sent)
		if err != nil {
			t.Fatal(err)
		}
		if got.Items[0] != "a!" || got.Size != sent.Size || string(got.Raw) != "\x00\x01" || !got.When.Equal(sent.When) || got.Span != time.Hour {
			t.Errorf("sent %+v, got %+v", sent, got)
		}
		if sent.Items[0] != "a" {
			t.Error("the caller's argument was changed: caller and called share it")
		}
		rep, err := c.RequestContext(ctx, module, object(), "Many", 41, "x")
		if err != nil {
			t.Fatal(err)
		}
		var n int
		var s string
		var b bool
		if err := rep.Unmarshal(&zbus.Loader{&n, &s, &b}); err != nil || n != 42 || s != "x!" || !b {
			t.Errorf("got %d %q %t, %v", n, s, b, err)
		}
		if _, err := c.RequestContext(ctx, module, object(), "Only", "", ""); err != nil {
			t.Errorf("a method that returned no error: %v", err)
		}
	})
}

func TestKindsSurvive(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		for _, kind := range []node.Kind{node.NotExist, node.Exist, node.NoSpace, node.Invalid, node.Refused, node.Busy, node.Transient, node.Unknown, node.Internal} {
			for _, method := range []string{"Fail", "Only"} {
				_, err := call[string](timeout(t, 5*time.Second), c, method, string(kind), "cannot do 100% of it")
				wantKind(t, err, kind)
				if !errors.Is(err, kind) || err.Error() != "cannot do 100% of it" {
					t.Errorf("%s of kind %s came as %q", method, kind, err)
				}
			}
		}
		_, err := call[string](timeout(t, 5*time.Second), c, "Fail", "none", "plain")
		wantKind(t, err, node.Internal)
		_, err = call[string](timeout(t, 5*time.Second), c, "Fail", "Nonsense", "a kind of nobody's")
		wantKind(t, err, node.Internal)
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		ctx := timeout(t, 30*time.Second)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for j := range 20 {
					want := fmt.Sprintf("%d-%d", i, j)
					if got, err := call[string](ctx, c, "Echo", want); err != nil || got != want {
						t.Errorf("called with %s, got %q, %v", want, got, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestServerRunsAgain(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl := newWorker()
		s := w.server(impl)
		c := w.client()
		events, _ := stream(t, c, "Ticks")
		for round := range 3 {
			stop := background(t, s.Run)
			nextTick(t, events, time.Minute)
			if got, err := call[string](timeout(t, 5*time.Second), c, "Echo", "hi"); err != nil || got != "hi" {
				t.Fatalf("round %d: %q, %v", round, got, err)
			}
			eventually(t, time.Minute, "a second Run is refused", func() bool {
				return errors.Is(s.Run(t.Context()), node.Exist)
			})
			within(t, slack, "stopping", stop)
			eventually(t, time.Minute, "its streams have ended", func() bool { return impl.ticking.Load() == 0 })
			drain(events)
			_, err := call[string](timeout(t, 50*time.Millisecond), c, "Echo", "anybody?")
			wantKind(t, err, node.Unknown)
		}
	})
}

func drain(events <-chan zbus.Event) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}

func TestLateServerAnswersWaitingCalls(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		s := w.server(newWorker())
		c := w.client()
		background(t, s.Run)() // makes the object known to the broker
		got := make(chan error, 1)
		go func() {
			_, err := call[string](timeout(t, 5*time.Second), c, "Echo", "early")
			got <- err
		}()
		time.Sleep(30 * time.Millisecond)
		background(t, s.Run)
		if err := <-got; err != nil {
			t.Errorf("a call made before the server ran: %v", err)
		}
	})
}

func TestServerFinishesRunningCalls(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl := newWorker()
		s := w.server(impl)
		stop := background(t, s.Run)
		c := w.client()
		got := make(chan error, 1)
		eventually(t, time.Minute, "the server answers", func() bool {
			_, err := call[string](timeout(t, time.Second), c, "Echo", "")
			return err == nil
		})
		go func() {
			_, err := call[string](timeout(t, 5*time.Second), c, "Slow", int64(300))
			got <- err
		}()
		eventually(t, time.Minute, "the call runs", func() bool { n, _ := impl.Ran("slow"); return n == 1 })
		within(t, slack, "stopping", stop)
		if err := <-got; err != nil {
			t.Errorf("a call that was begun when the server stopped: %v", err)
		}
	})
}

func TestStopGivesUpAfterItsGrace(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	s, err := bus.NewServer(b, module, bus.Options{Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	impl := newWorker()
	if err := bus.Register[works](s, object(), impl); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	go func() { _, _ = call[string](timeout(t, 5*time.Second), c, "Slow", int64(500)) }()
	eventually(t, time.Minute, "the call runs", func() bool { n, _ := impl.Ran("slow"); return n == 1 })
	cancel()
	err = <-ended
	wantKind(t, err, node.Busy)
	if !strings.Contains(err.Error(), "[object@1.0].Slow()") {
		t.Errorf("the error doesn't name the call: %v", err)
	}
	eventually(t, time.Minute, "the call has ended", func() bool { return s.Stats().Served == 1 })
}

func TestExpiredRequestIsNotRun(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl := newWorker()
		s := w.server(impl)
		background(t, s.Run)()
		c := w.client()
		_, err := call[string](timeout(t, 50*time.Millisecond), c, "Slow", int64(0))
		wantKind(t, err, node.Unknown)
		background(t, s.Run)
		if _, err := call[string](timeout(t, 5*time.Second), c, "Echo", "after it"); err != nil {
			t.Fatal(err)
		}
		// Another worker than Echo's may still handle the request.
		eventually(t, time.Minute, "the request has expired", func() bool { return s.Stats().Expired == 1 })
		if n, _ := impl.Ran("slow"); n != 0 {
			t.Errorf("the request ran %d times", n)
		}
	})
}

func TestStatus(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		impl, _ := w.serve()
		c := w.client()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = call[string](timeout(t, time.Minute), c, "Slow", int64(3000)) })
		}
		eventually(t, time.Minute, "all workers are busy", func() bool { n, _ := impl.Ran("slow"); return n == 4 })
		within(t, 2*time.Second, "asking for the status while all are busy", func() {
			status, err := c.Status(timeout(t, 5*time.Second), module)
			if err != nil {
				t.Error(err)
				return
			}
			if len(status.Objects) != 1 || status.Objects[0] != object() || len(status.Workers) != 4 {
				t.Errorf("status %+v", status)
			}
			for _, w := range status.Workers {
				if w.State != zbus.WorkerBusy || w.Action != "[object@1.0].Slow()" {
					t.Errorf("worker %+v", w)
				}
			}
		})
		wg.Wait()
	})
}

// TestRefuse: who calls an object in whose place there is a refusal learns the reason of that moment, and the object answers once it serves.
func TestRefuse(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		s, err := bus.NewServer(w.carrier, module, bus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		why := func() error { return node.Errorf(node.Transient, "it is away for the %d. time", asked.Add(1)) }
		if err := bus.Refuse(s, bus.Object("bad name", "1.0"), why); node.KindOf(err) != node.Invalid {
			t.Errorf("a wrong name: %v", err)
		}
		if err := bus.Refuse(s, object(), nil); node.KindOf(err) != node.Invalid {
			t.Errorf("no reason: %v", err)
		}
		if err := bus.Refuse(s, object(), why); err != nil {
			t.Fatal(err)
		}
		stop := background(t, s.Run)
		c := w.client()
		for n, method := range []string{"Echo", "Unknown"} {
			_, err := call[string](timeout(t, time.Minute), c, method, "text")
			wantKind(t, err, node.Transient)
			if want := fmt.Sprintf("it is away for the %d. time", n+1); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", method, err, want)
			}
		}
		stop()
		w.serve()
		if got, err := call[string](timeout(t, time.Minute), c, "Echo", "text"); err != nil || got != "text" {
			t.Errorf("after it: %q, %v", got, err)
		}
	})
}
