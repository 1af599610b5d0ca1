package debug

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback are the addresses that servers of tests have.
const loopback = "127.0.0.0/8"

// host is an address of loopback that no other process of tests has, so that the ports on it that are
// free stay free.
func host() string {
	id := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(64 + id>>16&63), byte(id >> 8), byte(id)}).String()
}

// server is a real redis-server on host.
type server struct {
	t    *testing.T
	port uint16
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	free, err := net.Listen("tcp", host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, port: uint16(free.Addr().(*net.TCPAddr).Port), args: args}
	_ = free.Close()
	t.Cleanup(s.kill)
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	args := append([]string{"--port", fmt.Sprint(s.port), "--bind", host(), "--save", "", "--appendonly", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Dir = s.t.TempDir()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(s.cmd, s.done)
	until(s.t, "redis answers", func() bool {
		conn, err := redis.Dial("tcp", s.address())
		if err != nil {
			return false
		}
		defer conn.Close()
		_, err = conn.Do("PING")
		return err == nil || strings.Contains(err.Error(), "NOAUTH")
	})
}

func (s *server) address() string { return fmt.Sprintf("%s:%d", host(), s.port) }

func (s *server) signal(sig os.Signal) { _ = s.cmd.Process.Signal(sig) }

func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	s.signal(unix.SIGCONT)
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// reader collects a channel's messages.
type reader struct {
	mu    sync.Mutex
	lines []string
}

func (s *server) subscribe(channel string) *reader {
	s.t.Helper()
	conn, err := redis.Dial("tcp", s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	sub := redis.PubSubConn{Conn: conn}
	if err := sub.Subscribe(channel); err != nil {
		s.t.Fatal(err)
	}
	if _, ok := sub.Receive().(redis.Subscription); !ok {
		s.t.Fatal("not subscribed")
	}
	r, done := &reader{}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			switch m := sub.Receive().(type) {
			case redis.Message:
				r.mu.Lock()
				r.lines = append(r.lines, string(m.Data))
				r.mu.Unlock()
			case error:
				return
			}
		}
	}()
	s.t.Cleanup(func() { conn.Close(); <-done })
	return r
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.lines...)
}

func (r *reader) has(part string) bool { return strings.Contains(strings.Join(r.all(), "\n"), part) }

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// world is a module with a tap, on loopback.
type world struct {
	*Module
	t   *testing.T
	tap *Tap
	// log writes into the tap as a node's logger does; own has the module's own log.
	log zerolog.Logger
	own *buffer
}

// buffer is a writer that may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newWorld(t *testing.T, exceptions ...string) *world {
	t.Helper()
	return newWorldWithin(t, 400*time.Millisecond, exceptions...)
}

// newWorldWithin is a world whose module gives a server so long.
func newWorldWithin(t *testing.T, timeout time.Duration, exceptions ...string) *world {
	t.Helper()
	c := dial.Config{Own: func() []netip.Prefix { return nil }, Timeout: 3 * time.Second, Log: zerolog.Nop()}
	for _, text := range exceptions {
		e, err := dial.ParseException(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Allow = append(c.Allow, e)
	}
	dialer, err := dial.New(c)
	if err != nil {
		t.Fatal(err)
	}
	own := &buffer{}
	tap := NewTap(io.Discard)
	m, err := New(Config{
		Dialer: dialer, Tap: tap, Log: zerolog.New(own), Pause: 10 * time.Millisecond, MaxPause: 50 * time.Millisecond, Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return &world{Module: m, t: t, tap: tap, log: zerolog.New(tap).With().Timestamp().Logger(), own: own}
}

func specOf(id string, s *server) node.DebugSpec {
	return node.DebugSpec{ID: id, User: "U", Host: host(), Port: s.port, Channel: "logs-" + id}
}

func (w *world) begin(spec node.DebugSpec) {
	w.t.Helper()
	if _, err := w.Start(spec); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) one(id string) node.DebugInfo {
	w.t.Helper()
	all, err := w.List()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range all {
		if i.ID == id {
			return i
		}
	}
	w.t.Fatalf("no stream %s in %+v", id, all)
	return node.DebugInfo{}
}

func (w *world) connected(id string) {
	w.t.Helper()
	until(w.t, "stream "+id+" is connected", func() bool { return w.one(id).Connected })
}

// patient is how long a server may take where the module mustn't wait for it: longer than what is quick
// takes on a loaded machine.
const patient = 2 * time.Minute

// quick runs f and fails the test if it takes a quarter of patient.
func quick(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > patient/4 {
		t.Errorf("%s took %s", what, took)
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
