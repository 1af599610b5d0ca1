package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// bareClient is the library's own client. It leaks its connections, and the goroutines
// of its streams.
func bareClient(t *testing.T, w *world) zbus.Client {
	t.Helper()
	c, err := zbus.NewRedisClient(w.url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outsideWorlds are those that the bare library reaches. They check for no leaks,
// because the library has them.
func outsideWorlds(t *testing.T, f func(t *testing.T, w *world)) {
	for name, open := range map[string]func(*world){"redis": openRedis, "broker": openBroker} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, name: name, logs: &logBuffer{}, resumed: make(chan string, 1000)}
			open(w)
			f(t, w)
		})
	}
}

func TestBareClientCallsOurServer(t *testing.T) {
	outsideWorlds(t, func(t *testing.T, w *world) {
		w.serve()
		c := bareClient(t, w)
		ctx := timeout(t, 10*time.Second)
		sent := parcel{Name: "n", Items: []string{"a"}, Size: 7, When: time.Unix(5, 0), Span: time.Minute}
		got, err := call[parcel](ctx, c, "Send", sent)
		if err != nil || got.Name != "n" || got.Items[0] != "a!" || !got.When.Equal(sent.When) {
			t.Errorf("got %+v, %v", got, err)
		}
		// It sees an error's plain text, and the zero result beside it.
		for _, method := range []string{"Fail", "Only"} {
			rep, err := c.RequestContext(ctx, module, object(), method, "NoSpace", "cannot fit 5 GiB")
			if err != nil || rep == nil {
				t.Fatalf("%s: %v, %v", method, rep, err)
			}
			if got := rep.CallError(); got == nil || got.Error() != "cannot fit 5 GiB" {
				t.Errorf("%s: the error is %v", method, got)
			}
		}
		// Its stubs decode the result before they check the error, and panic
		// when there is none.
		for _, method := range []string{"Panics", "Bad"} {
			args := map[string][]any{"Panics": {"x"}}[method]
			rep, err := c.RequestContext(ctx, module, object(), method, args...)
			if err != nil || rep == nil || rep.CallError() == nil || rep.Error != nil {
				t.Fatalf("%s: %+v, %v", method, rep, err)
			}
			if method == "Panics" {
				var p parcel
				if err := rep.Unmarshal(&zbus.Loader{&p}); err != nil {
					t.Errorf("%s: its stub would panic: %v", method, err)
				}
			}
		}
		status, err := c.Status(ctx, module)
		if err != nil || len(status.Objects) != 1 || status.Objects[0] != object() || len(status.Workers) != 4 {
			t.Errorf("status %+v, %v", status, err)
		}
	})
}

func TestBareClientReadsOurStream(t *testing.T) {
	outsideWorlds(t, func(t *testing.T, w *world) {
		w.serve()
		events, cancel := stream(t, bareClient(t, w), "Ticks")
		last := nextTick(t, events, 5*time.Second)
		for range 5 {
			if n := nextTick(t, events, 5*time.Second); n != last+1 {
				t.Fatalf("after %d came %d", last, n)
			} else {
				last = n
			}
		}
		cancel()
	})
}

// bareServer serves a new worker with the library's own server. It takes up to
// ten seconds to stop, so nothing waits for it.
func bareServer(t *testing.T, w *world) *worker {
	t.Helper()
	s, err := zbus.NewRedisServer(module, w.url, 4)
	if err != nil {
		t.Fatal(err)
	}
	impl := newWorker()
	if err := s.Register(object(), impl); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = s.Run(ctx) }()
	return impl
}

func bareWorld(t *testing.T) *world {
	w := &world{t: t, name: "redis", logs: &logBuffer{}, resumed: make(chan string, 1000)}
	openRedis(w)
	return w
}

func TestOurClientCallsABareServer(t *testing.T) {
	w := bareWorld(t)
	impl := bareServer(t, w)
	c := w.client()
	ctx := timeout(t, 10*time.Second)
	// It ignores our request's deadline.
	got, err := call[parcel](ctx, c, "Send", parcel{Name: "n", Items: []string{"a"}, Size: 7})
	if err != nil || got.Name != "n" || got.Items[0] != "a!" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, test := range []struct {
		method, text string
		args         []any
	}{
		{"Fail", "cannot fit", []any{"NoSpace", "cannot fit"}},
		{"Only", "cannot fit", []any{"NoSpace", "cannot fit"}},
		{"Only", "without saying why", []any{"none", ""}},
		{"Nope", "not a function", nil},
		{"Echo", "invalid number of arguments", nil},
		{"Panics", "paniced", []any{"x"}},
	} {
		_, err := call[string](ctx, c, test.method, test.args...)
		wantKind(t, err, node.Internal)
		if !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", test.method, err)
		}
	}
	if _, err := call[unencodable](ctx, c, "Bad"); err == nil {
		t.Error("a result that the server couldn't encode came as success")
	}
	status, err := c.Status(ctx, module)
	if err != nil || len(status.Objects) != 1 || len(status.Workers) != 4 {
		t.Errorf("status %+v, %v", status, err)
	}
	events, _ := stream(t, c, "Ticks")
	last := nextTick(t, events, 5*time.Second)
	if n := nextTick(t, events, 5*time.Second); n != last+1 {
		t.Errorf("after %d came %d", last, n)
	}
	_, err = call[string](timeout(t, 30*time.Millisecond), c, "Slow", int64(100))
	wantKind(t, err, node.Unknown)
	eventually(t, 5*time.Second, "the bare server has run it", func() bool { n, _ := impl.Ran("slow"); return n == 1 })
}

// TestTheBareLibraryHasTheseDefects validates the tests of this package: on the
// bare library the same situations fail. If one of these tests fails, the library
// was fixed, and this package's workaround can be reconsidered.
func TestTheBareLibraryHasTheseDefects(t *testing.T) {
	w := bareWorld(t)
	bareServer(t, w)
	c := bareClient(t, w)
	ctx := timeout(t, 20*time.Second)
	for _, test := range []struct {
		method string
		args   []any
	}{{"Nope", nil}, {"Echo", nil}, {"Panics", []any{"x"}}} {
		if rep, err := c.RequestContext(ctx, module, object(), test.method, test.args...); rep != nil || err != nil {
			t.Errorf("%s: got %v, %v; it was nil, nil", test.method, rep, err)
		}
	}
	if rep, err := c.RequestContext(ctx, module, object(), "Bad"); err != nil || rep.CallError() != nil || rep.Output.Data != nil {
		t.Errorf("a result that can't be encoded: %+v, %v; it was success without a result", rep, err)
	}
	if rep, err := c.RequestContext(ctx, module, object(), "Only", "none", ""); err != nil || rep.CallError() != nil {
		t.Errorf("an error with an empty text: %+v, %v; it was success", rep, err)
	}
	start := time.Now()
	_, err := c.RequestContext(timeout(t, 100*time.Millisecond), "nobody", object(), "Echo", "x")
	if took := time.Since(start); took < 500*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline of 100 ms was seen after %s: %v; it was a second", took, err)
	}
	if ttl := w.redis.do("TTL", "nobody.object@1.0").(int64); ttl != -1 {
		t.Errorf("a queue without a server lives %d s; it was for ever", ttl)
	}
	before := w.redis.connections()
	for range 20 {
		_, cancel := stream(t, c, "Quiet")
		cancel()
	}
	time.Sleep(100 * time.Millisecond)
	if n := w.redis.connections() - before; n < 15 {
		t.Errorf("20 cancelled streams hold %d connections; it was 20", n)
	}
	req, err := zbus.NewRequest("x", "storage.storage@0.1.0", object(), "Echo", "planted")
	if err != nil {
		t.Fatal(err)
	}
	w.redis.do("RPUSH", queueKey, must(req.Encode()))
	eventually(t, 5*time.Second, "the reply lands in somebody's queue", func() bool { return w.redis.length("storage.storage@0.1.0") == 1 })
	if _, err := zbus.NewRedisClient("redis://127.0.0.1"); err == nil {
		t.Error("it takes redis:// URLs; it didn't")
	}
	lazy, err := zbus.NewRedisClient("unix:///nowhere")
	if err != nil || lazy == nil {
		t.Errorf("it connects at once: %v; it didn't", err)
	}
}

func TestABareClientThatComesLaterGetsTheLastEvent(t *testing.T) {
	w := &world{t: t, name: "broker", logs: &logBuffer{}, resumed: make(chan string, 1000)}
	openBroker(w)
	impl, _ := w.serve()
	ours, _ := stream(t, w.client(), "Burst")
	impl.burst <- tick{7}
	nextTick(t, ours, 5*time.Second)
	events, err := bareClient(t, w).Stream(timeout(t, time.Minute), module, object(), "Burst")
	if err != nil {
		t.Fatal(err)
	}
	if n := nextTick(t, events, 5*time.Second); n != 7 {
		t.Errorf("it got %d", n)
	}
}

// TestNewcomers: on redis, which keeps no events, a new reader is noticed, and a leaving
// one isn't; elsewhere the bus greets newcomers itself.
func TestNewcomers(t *testing.T) {
	if bus.Newcomers(t.Context(), bus.NewInProcess(), module, object(), "Burst") != nil {
		t.Error("an in-process bus says who came")
	}
	w := bareWorld(t)
	c := bareClient(t, w)
	_, leave := stream(t, c, "Burst")
	came := bus.Newcomers(timeout(t, time.Minute), w.carrier, module, object(), "Burst")
	quiet := func(why string) {
		t.Helper()
		select {
		case <-came:
			t.Errorf("somebody came, but %s", why)
		case <-time.After(5 * time.Second):
		}
	}
	quiet("he was there before")
	_, _ = stream(t, w.client(), "Burst")
	select {
	case <-came:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed who came")
	}
	leave()
	quiet("one has left")
}
