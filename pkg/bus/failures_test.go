package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// The bare library answers most of these with a nil response and a nil error.
func TestEveryFailureIsAnErrorWithItsKind(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		_, s := w.serve()
		c := w.client()
		for _, test := range []struct {
			name, method string
			args         []any
			kind         node.Kind
			text         string
		}{
			{"unknown method", "Nope", nil, node.Invalid, "unknown method"},
			{"a stream isn't a method", "Ticks", nil, node.Invalid, "unknown method"},
			{"a method beside the contract", "run", []any{"x"}, node.Invalid, "unknown method"},
			{"no argument", "Echo", nil, node.Invalid, "takes 1 arguments, 0 came"},
			{"too many arguments", "Echo", []any{"a", "b"}, node.Invalid, "takes 1 arguments, 2 came"},
			{"far too many arguments", "Echo", make([]any, 17), node.Invalid, "at most 16"},
			{"wrong type", "Echo", []any{map[string]int{"a": 1}}, node.Invalid, "argument 0 must be string"},
			{"argument that can't be encoded", "Echo", []any{make(chan int)}, node.Invalid, "cannot pass argument 0"},
			{"argument that is too large", "Echo", []any{strings.Repeat("x", bus.MaxFrame)}, node.Invalid, "more than the 4194304"},
			{"panic", "Panics", []any{"the secret"}, node.Internal, "failed badly"},
			{"result that can't be encoded", "Bad", nil, node.Internal, "cannot send what"},
			{"result that is too large", "Huge", []any{int64(bus.MaxFrame)}, node.Internal, "more than the 4194304"},
			{"error with empty text", "Only", []any{"none", ""}, node.Internal, "without saying why"},
			{"error with endless text", "Only", []any{"Busy", strings.Repeat("é", 1<<20)}, node.Busy, "…"},
		} {
			rep, err := c.RequestContext(timeout(t, 5*time.Second), module, object(), test.method, test.args...)
			if err == nil || rep != nil {
				t.Errorf("%s: got %v, %v", test.name, rep, err)
				continue
			}
			if got := node.KindOf(err); got != test.kind || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: got kind %s, text %.300q; want %s, %q", test.name, got, err, test.kind, test.text)
			}
			if strings.Contains(err.Error(), "the secret") || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%s: the caller sees too much: %v", test.name, err)
			}
		}
		if log := w.logs.String(); !strings.Contains(log, "a method panicked") || !strings.Contains(log, "the secret") || !strings.Contains(log, "worker).Panics") {
			t.Errorf("the panic and its stack aren't in the log: %s", log)
		}
		if s.Stats().Panicked != 1 {
			t.Errorf("%d panics were counted", s.Stats().Panicked)
		}
		if got, err := call[string](timeout(t, 5*time.Second), c, "Echo", "alive"); err != nil || got != "alive" {
			t.Errorf("after all that: %q, %v", got, err)
		}
	})
}

func TestDeadlineIsHonouredWithinMilliseconds(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		onTime(t, 100*time.Millisecond, "a call with 100 ms that would take 800", func(ctx context.Context) {
			_, err := call[string](ctx, c, "Slow", int64(800))
			wantKind(t, err, node.Unknown)
		})
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		within(t, 2*time.Second, "a cancelled call", func() {
			_, err := call[string](ctx, c, "Slow", int64(3000))
			wantKind(t, err, node.Unknown)
		})
		_, err := call[string](ctx, c, "Echo", "too late")
		wantKind(t, err, node.Transient)
		eventually(t, time.Minute, "the late answers are thrown away", func() bool {
			_, _ = call[string](timeout(t, time.Second), c, "Echo", "")
			return c.Stats().StrayReplies+lostReplies(w) >= 1
		})
	})
}

// lostReplies counts the replies that were ready when nobody waited any more.
func lostReplies(w *world) uint64 {
	return uint64(strings.Count(w.logs.String(), "cannot send a reply"))
}

func TestCallHasADeadlineOfItsOwn(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	c := bus.NewClient(b, bus.Options{Timeout: 50 * time.Millisecond})
	defer c.Close()
	within(t, slack, "a call without a server and without a deadline", func() {
		_, err := c.Request("nobody", object(), "Echo", "x")
		wantKind(t, err, node.Unknown)
		if !strings.Contains(err.Error(), "nobody.object@1.0.Echo") {
			t.Errorf("the error doesn't name the call: %v", err)
		}
	})
	within(t, slack, "a status without a server", func() {
		_, err := c.Status(context.Background(), "nobody")
		wantKind(t, err, node.Unknown)
	})
}

func TestClosedClientEndsItsCalls(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		ended := make(chan error, 1)
		go func() {
			_, err := call[string](context.Background(), c, "Slow", int64(700))
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		within(t, slack, "closing", func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		wantKind(t, <-ended, node.Unknown)
		_, err := call[string](context.Background(), c, "Echo", "")
		wantKind(t, err, node.Transient)
		if err := c.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
	})
}

func TestNamesAreChecked(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	for _, name := range []string{"", "a.b", "a b", "../x", "ä", strings.Repeat("x", 65), "1a"} {
		_, err := c.Request(name, object(), "Echo", "")
		wantKind(t, err, node.Invalid)
		_, err = c.Stream(t.Context(), name, object(), "Ticks")
		wantKind(t, err, node.Invalid)
		_, err = bus.NewServer(b, name, bus.Options{})
		wantKind(t, err, node.Invalid)
	}
	s, err := bus.NewServer(b, module, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.Run(t.Context()), node.Invalid)
	wantKind(t, bus.Register[works](s, bus.Object("zbus", "1.0"), newWorker()), node.Refused)
	wantKind(t, bus.Register[works](s, bus.Object("a.b", "1.0"), newWorker()), node.Invalid)
	wantKind(t, bus.Register[works](s, bus.Object("a", "1 0"), newWorker()), node.Invalid)
	wantKind(t, bus.Register[works](s, bus.Object("a", "1.0"), nil), node.Invalid)
	wantKind(t, bus.Register(s, bus.Object("a", "1.0"), newWorker()), node.Invalid)
	wantKind(t, bus.Register[any](s, bus.Object("a", "1.0"), newWorker()), node.Invalid)
	wantKind(t, bus.Register[interface{ Do(chan int) error }](s, bus.Object("a", "1.0"), doesChan{}), node.Invalid)
	wantKind(t, bus.Register[interface{ Err() (error, int) }](s, bus.Object("a", "1.0"), doesErr{}), node.Invalid)
	if err := bus.Register[works](s, object(), newWorker()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, bus.Register[works](s, object(), newWorker()), node.Exist)
	for _, o := range []bus.Options{{Timeout: -1}, {Workers: -1}, {Workers: 1025}, {Grace: -1}} {
		_, err := bus.NewServer(b, module, o)
		wantKind(t, err, node.Invalid)
	}
}

type doesChan struct{}

func (doesChan) Do(chan int) error { return nil }

type doesErr struct{}

func (doesErr) Err() (error, int) { return nil, 0 } //nolint:revive,staticcheck // the wrong order is what is tested

func TestUnknownObjectOfAKnownModule(t *testing.T) {
	noLeaks(t)
	w := &world{t: t, logs: &logBuffer{}}
	openInProcess(w)
	w.serve()
	// A careless peer sends another object's name in a frame to the queue of a
	// served object.
	rep := w.raw(t, &zbus.Request{ID: "x", Object: bus.Object("other", "1.0"), ReplyTo: someUUID, Method: "Echo"})
	if rep.Error == nil || !strings.Contains(*rep.Error, "unknown object") {
		t.Errorf("got %+v", rep)
	}
}

// A caller whose next call must not overtake this one waits for the answer after its cancellation.
func TestACancelledCallIsWaitedFor(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		w.serve()
		c := w.client()
		ctx, cancel := context.WithCancel(node.AwaitAnswers(context.Background(), time.Minute))
		time.AfterFunc(50*time.Millisecond, cancel)
		if got, err := call[string](ctx, c, "Slow", int64(500)); err != nil || got != "slow" {
			t.Errorf("the answer is %q, %v", got, err)
		}
		_, err := call[string](ctx, c, "Echo", "too late")
		wantKind(t, err, node.Transient)
		ctx, cancel = context.WithCancel(node.AwaitAnswers(context.Background(), 100*time.Millisecond))
		time.AfterFunc(50*time.Millisecond, cancel)
		within(t, 2*time.Second, "a cancelled call of seconds", func() {
			_, err := call[string](ctx, c, "Slow", int64(3000))
			wantKind(t, err, node.Unknown)
		})
		onTime(t, 100*time.Millisecond, "no longer than its deadline", func(ctx context.Context) {
			_, err := call[string](node.AwaitAnswers(ctx, time.Minute), c, "Slow", int64(800))
			wantKind(t, err, node.Unknown)
		})
	})
}
