package loop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a handler with a few commands. Its fields belong to the loop's
// thread: tests look at them through Post.
type script struct {
	opened, closed int
	order          []string // of which connection each request was
	values         map[string]string
	holding        []*loop.Conn
	flushes, ticks int
	unflushed      int // requests since the last flush
	failing        error
	pause          time.Duration // what Tick returns
	onFlush        func()
	asked          time.Time       // when SOON came
	late           []time.Duration // how long the ticks after SOON took to come
}

func (s *script) Open(c *loop.Conn) {
	s.opened++
	c.State = "nobody"
}

func (s *script) Closed(c *loop.Conn) { s.closed++ }

func (s *script) Flush() error {
	s.flushes++
	s.unflushed = 0
	if s.onFlush != nil {
		s.onFlush()
	}
	return s.failing
}

func (s *script) Tick(now time.Time) time.Duration {
	s.ticks++
	if !s.asked.IsZero() {
		s.late = append(s.late, now.Sub(s.asked))
		s.asked = time.Time{}
	}
	return s.pause
}

func (s *script) Command(c *loop.Conn, args [][]byte) {
	s.unflushed++
	if len(s.order) == 1<<15 {
		s.order = s.order[:0]
	}
	s.order = append(s.order, c.State.(string))
	switch name := strings.ToUpper(string(args[0])); name {
	case "PING":
		c.Out = resp.AppendSimple(c.Out, "PONG")
	case "NAME":
		c.State = string(args[1])
		c.Out = resp.AppendSimple(c.Out, "OK")
	case "ECHO":
		c.Out = resp.AppendBulk(c.Out, args[1])
	case "ADMIN":
		c.Out = resp.AppendSimple(c.Out, strconv.FormatBool(c.Admin))
	case "BIG":
		n, _ := strconv.Atoi(string(args[1]))
		c.Out = resp.AppendBulk(c.Out, bytes.Repeat([]byte{'x'}, n))
	case "SET":
		c.AwaitFlush()
		s.values[string(args[1])] = string(args[2])
		c.Out = resp.AppendBulk(c.Out, args[1])
	case "GET":
		c.Out = resp.AppendBulkString(c.Out, s.values[string(args[1])])
	case "SUM":
		sum := 0
		for _, a := range args[1:] {
			sum += len(a)
		}
		c.Out = resp.AppendInt(c.Out, int64(sum))
	case "STAND": // group, and known, stranger or anything else
		if !c.Stand(loop.Standing{Group: string(args[1]), Known: string(args[2]) == "known", Stranger: string(args[2]) == "stranger"}) {
			c.Out = resp.AppendError(c.Out, "No place")
			return
		}
		c.Out = resp.AppendSimple(c.Out, "OK")
	case "SOURCE":
		c.Out = resp.AppendSimple(c.Out, c.Source())
	case "ROOM":
		c.Out = resp.AppendInt(c.Out, c.Room())
	case "HOLD":
		c.Hold()
		s.holding = append(s.holding, c)
	case "RELEASE":
		s.release()
		c.Out = resp.AppendSimple(c.Out, "OK")
	case "SOON":
		s.asked = c.Now()
		c.TickBy(c.Now().Add(10 * time.Millisecond))
		c.Out = resp.AppendSimple(c.Out, "OK")
	case "TRAFFIC":
		received, sent := c.Traffic()
		c.Out = resp.AppendSimple(c.Out, strconv.FormatUint(received, 10)+" "+strconv.FormatUint(sent, 10))
	case "QUIT":
		c.Out = resp.AppendSimple(c.Out, "BYE")
		c.CloseAfter()
	default:
		c.Out = resp.AppendError(c.Out, "Command not supported")
	}
}

func (s *script) release() {
	for _, c := range s.holding {
		c.Out = resp.AppendSimple(c.Out, "RELEASED")
		c.Release()
	}
	s.holding = nil
}

// world is a loop that runs, with a TCP and two unix listeners.
type world struct {
	t       *testing.T
	loop    *loop.Loop
	handler *script
	tcp     string
	unix    string
	admin   string
	log     *bytes.Buffer // to be read once the loop has ended
	stop    func()
}

func start(t *testing.T, config loop.Config) *world {
	t.Helper()
	w := &world{t: t, handler: &script{values: map[string]string{}, pause: time.Hour}, log: &bytes.Buffer{}}
	return w.run(config)
}

func (w *world) run(config loop.Config) *world {
	t := w.t
	t.Helper()
	config.Handler, config.Log = w.handler, zerolog.New(w.log)
	var err error
	if w.loop, err = loop.New(config); err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its names are too long for a socket's.
	dir, err := os.MkdirTemp("", "zdbloop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.tcp = w.listen("tcp", "127.0.0.1:0", false)
	w.unix = w.listen("unix", filepath.Join(dir, "s"), false)
	w.admin = w.listen("unix", filepath.Join(dir, "a"), true)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(w.stop)
	return w
}

// listen hands the loop a socket and returns its address.
func (w *world) listen(network, address string, admin bool) string {
	w.t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		w.t.Fatal(err)
	}
	if u, ok := listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	f, err := listener.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		w.t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	if err := w.loop.Listen(f, admin); err != nil {
		w.t.Fatal(err)
	}
	return address
}

// listeners is how many listeners the loop has.
func (w *world) listeners(admin bool) int {
	w.t.Helper()
	files, err := w.loop.Listeners(admin)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	return len(files)
}

// on runs f on the loop's thread, and waits for it.
func (w *world) on(f func()) {
	w.t.Helper()
	done := make(chan struct{})
	if !w.loop.Post(func() { f(); close(done) }) {
		w.t.Fatal("the loop has ended")
	}
	<-done
}

// stats is the counters' values now: a reply comes before its round's sums.
func (w *world) stats() loop.Stats {
	w.t.Helper()
	w.on(func() {})
	return w.loop.Stats()
}

func (w *world) dial() net.Conn { return w.dialTo("tcp", w.tcp) }

func (w *world) dialTo(network, address string) net.Conn {
	w.t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// client is a redigo client.
func (w *world) client() redis.Conn { return redis.NewConn(w.dial(), time.Minute, time.Minute) }

// until polls for what becomes true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(time.Minute)
	for !f() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func request(args ...string) []byte {
	out := resp.AppendArray(nil, len(args))
	for _, a := range args {
		out = resp.AppendBulkString(out, a)
	}
	return out
}

func write(t *testing.T, c net.Conn, data []byte) {
	t.Helper()
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

// expectEnd reads what there is to the end, and wants it to be that.
func expectEnd(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != want {
		t.Fatalf("read %q to the end, %v; want %q", got, err, want)
	}
}

// expectGone wants the connection to end, orderly or not.
func expectGone(t *testing.T, c net.Conn) {
	t.Helper()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, c); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the connection is still there")
	}
}
