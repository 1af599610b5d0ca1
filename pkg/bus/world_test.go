package bus_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/node"
)

// works is a contract with all kinds of methods and streams.
type works interface {
	Echo(text string) (string, error)
	Fail(kind, message string) (string, error)
	Only(kind, message string) error
	Slow(millis int64) (string, error)
	Panics(text string) (parcel, error)
	Bad() (unencodable, error)
	Huge(bytes int64) ([]byte, error)
	Send(p parcel) (parcel, error)
	Ran(name string) (int64, error)
	Many(a int, b string) (int, string, bool, error)
	Ticks(ctx context.Context) <-chan tick
	Quiet(ctx context.Context) <-chan tick
	Burst(ctx context.Context) <-chan tick
}

type parcel struct {
	Name  string
	Items []string
	Size  uint64
	Raw   []byte
	When  time.Time
	Span  time.Duration
}

type unencodable struct{ C chan int }

type tick struct{ N int64 }

// worker implements works.
type worker struct {
	mu    sync.Mutex
	ran   map[string]int64
	ticks atomic.Int64
	// ticking counts the running streams.
	ticking atomic.Int64
	burst   chan tick
}

func newWorker() *worker {
	return &worker{ran: map[string]int64{}, burst: make(chan tick)}
}

func (w *worker) Echo(text string) (string, error) { return text, nil }

func (w *worker) Fail(kind, message string) (string, error) {
	return "half done", failure(kind, message)
}

func (w *worker) Only(kind, message string) error { return failure(kind, message) }

func failure(kind, message string) error {
	switch kind {
	case "":
		return nil
	case "none":
		return errors.New(message)
	}
	return node.Errorf(node.Kind(kind), "%s", message)
}

func (w *worker) Slow(millis int64) (string, error) {
	w.run("slow")
	time.Sleep(time.Duration(millis) * time.Millisecond)
	return "slow", nil
}

func (w *worker) Panics(text string) (parcel, error) { panic(text) }

func (w *worker) Bad() (unencodable, error) { return unencodable{C: make(chan int)}, nil }

func (w *worker) Huge(n int64) ([]byte, error) { return make([]byte, n), nil }

func (w *worker) Send(p parcel) (parcel, error) {
	if len(p.Items) > 0 {
		p.Items[0] += "!"
	}
	return p, nil
}

func (w *worker) run(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran[name]++
}

func (w *worker) Ran(name string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[name], nil
}

func (w *worker) Many(a int, b string) (int, string, bool, error) { return a + 1, b + "!", true, nil }

func (w *worker) stream(ctx context.Context, every time.Duration) <-chan tick {
	out := make(chan tick)
	w.ticking.Add(1)
	go func() {
		defer w.ticking.Add(-1)
		defer close(out)
		for {
			select {
			case out <- tick{w.ticks.Add(1)}:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (w *worker) Ticks(ctx context.Context) <-chan tick { return w.stream(ctx, 5*time.Millisecond) }

func (w *worker) Quiet(ctx context.Context) <-chan tick {
	out := make(chan tick)
	w.ticking.Add(1)
	go func() {
		defer w.ticking.Add(-1)
		defer close(out)
		<-ctx.Done()
	}()
	return out
}

// Burst sends the test's events, and never closes its channel.
func (w *worker) Burst(context.Context) <-chan tick { return w.burst }

const module = "works"

func object() zbus.ObjectID { return bus.Object("object", "1.0") }

// world is one transport of frames.
type world struct {
	t     *testing.T
	name  string
	redis *redisProcess
	// carrier is the servers' bus; url is the address that a client can dial, if any.
	carrier bus.Bus
	url     string
	logs    *logBuffer
	resumed chan string
}

// everyWorld runs f over each of the three transports.
func everyWorld(t *testing.T, f func(t *testing.T, w *world)) {
	for name, open := range map[string]func(*world){
		"in process": openInProcess, "redis": openRedis, "broker": openBroker,
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			w := &world{t: t, name: name, logs: &logBuffer{}, resumed: make(chan string, 1000)}
			open(w)
			f(t, w)
		})
	}
}

func redisWorld(t *testing.T) *world {
	noLeaks(t)
	w := &world{t: t, name: "redis", logs: &logBuffer{}, resumed: make(chan string, 1000)}
	openRedis(w)
	return w
}

func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func (w *world) options() bus.Options {
	return bus.Options{
		Log: zerolog.New(w.logs), Grace: 5 * time.Second,
		OnResume: func(channel string, _ time.Duration) { w.resumed <- channel },
	}
}

func openInProcess(w *world) {
	b := bus.NewInProcess()
	w.t.Cleanup(func() { _ = b.Close() })
	w.carrier = b
}

func openRedis(w *world) {
	w.redis = startRedis(w.t)
	w.url = w.redis.url()
	b, err := bus.Connect(timeout(w.t, 5*time.Second), w.url, w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = b.Close() })
	w.carrier = b
}

func openBroker(w *world) {
	openInProcess(w)
	w.url = "unix://" + filepath.Join(shortDir(w.t), "bus.sock")
	listening, err := broker.Listen(w.carrier.(*bus.InProcess), w.url, w.options().Log)
	if err != nil {
		w.t.Fatal(err)
	}
	background(w.t, listening.Run)
}

// background runs f until the test ends, or the returned function is called.
func background(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			t.Errorf("it ended with: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// client is a client of the world's servers; it is closed with the test.
func (w *world) client() *bus.Client {
	w.t.Helper()
	var c *bus.Client
	if w.url == "" {
		c = bus.NewClient(w.carrier, w.options())
	} else {
		var err error
		if c, err = bus.Dial(timeout(w.t, 5*time.Second), w.url, w.options()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// server makes a server of impl, which the caller runs.
func (w *world) server(impl works) *bus.Server {
	w.t.Helper()
	s, err := bus.NewServer(w.carrier, module, w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := bus.Register[works](s, object(), impl); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// serve runs a server of a new worker until the test ends.
func (w *world) serve() (*worker, *bus.Server) {
	w.t.Helper()
	impl := newWorker()
	s := w.server(impl)
	background(w.t, s.Run)
	// The broker accepts requests for served objects only.
	eventually(w.t, time.Minute, "the server runs", func() bool {
		_, err := call[string](timeout(w.t, time.Second), w.client(), "Echo", "up?")
		return err == nil
	})
	return impl, s
}

// call calls a method as a stub does.
func call[T any](ctx context.Context, c zbus.Client, method string, args ...any) (value T, err error) {
	rep, err := c.RequestContext(ctx, module, object(), method, args...)
	if err != nil {
		return value, err
	}
	return value, rep.Unmarshal(&zbus.Loader{&value})
}

func stream(t *testing.T, c zbus.Client, name string) (<-chan zbus.Event, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	events, err := c.Stream(ctx, module, object(), name)
	if err != nil {
		t.Fatal(err)
	}
	return events, cancel
}

// nextTick is the next event, or a failure after limit.
func nextTick(t *testing.T, events <-chan zbus.Event, limit time.Duration) int64 {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream has ended")
		}
		var v tick
		if err := e.Unmarshal(&v); err != nil {
			t.Fatal(err)
		}
		return v.N
	case <-time.After(limit):
		t.Fatalf("no event in %s", limit)
	}
	return 0
}

func wantKind(t *testing.T, err error, kind node.Kind) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of kind %s", kind)
	}
	if got := node.KindOf(err); got != kind {
		t.Fatalf("the error's kind is %s, want %s: %v", got, kind, err)
	}
}

// logBuffer is a log that a test can read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
