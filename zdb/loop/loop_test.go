package loop_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/loop"
)

func TestRequestsAreAnswered(t *testing.T) {
	w := start(t, loop.Config{})
	for _, at := range [][2]string{{"tcp", w.tcp}, {"unix", w.unix}} {
		c := w.dialTo(at[0], at[1])
		write(t, c, request("PING"))
		expect(t, c, "+PONG\r\n")
		write(t, c, append(append(request("ECHO", "a"), request("ECHO", "")...), request("PING")...))
		expect(t, c, "$1\r\na\r\n$0\r\n\r\n+PONG\r\n")
	}
	client := w.client()
	if v, err := redis.String(client.Do("SET", "key", "value")); v != "key" || err != nil {
		t.Errorf("SET: %q, %v", v, err)
	}
	if v, err := redis.String(client.Do("GET", "key")); v != "value" || err != nil {
		t.Errorf("GET: %q, %v", v, err)
	}
}

func TestAdminListener(t *testing.T) {
	w := start(t, loop.Config{})
	for _, c := range []struct{ network, address, want string }{{"tcp", w.tcp, "+false\r\n"}, {"unix", w.unix, "+false\r\n"}, {"unix", w.admin, "+true\r\n"}} {
		conn := w.dialTo(c.network, c.address)
		write(t, conn, request("ADMIN"))
		expect(t, conn, c.want)
	}
}

func TestMalformedRequests(t *testing.T) {
	w := start(t, loop.Config{MaxArgument: 100, MaxArguments: 4, MaxRequest: 150})
	for _, c := range []struct{ send, want string }{
		{"PING\r\n", "-Malformed request, array expected\r\n"},
		{"*0\r\n", "-Missing arguments\r\n"},
		{"*5\r\n", "-Too many arguments\r\n"},
		{"*1\r\n:1\r\n", "-Malformed query string\r\n"},
		{"*2\r\n$3\r\nSET\r\n$101\r\n", "-Payload too big\r\n"},
		{"*2\r\n$99\r\n" + strings.Repeat("x", 99) + "\r\n$99\r\n", "-Request too big\r\n"},
		{"*1\r\n$4\r\nPING\r\nQ", "+PONG\r\n-Malformed request, array expected\r\n"},
		// Further input of the client doesn't keep the reply from it.
		{"Q" + strings.Repeat("x", 4<<20), "-Malformed request, array expected\r\n"},
	} {
		conn := w.dial()
		write(t, conn, []byte(c.send))
		expectEnd(t, conn, c.want)
		_ = conn.Close()
	}
	if got := w.stats().Malformed; got != 8 {
		t.Errorf("%d requests were counted as malformed, want 8", got)
	}
	until(t, "all are gone", func() bool { return w.stats().Connections == 0 })
}

func TestCloseAfter(t *testing.T) {
	w := start(t, loop.Config{})
	conn := w.dial()
	write(t, conn, append(append(request("PING"), request("QUIT")...), request("PING")...))
	expectEnd(t, conn, "+PONG\r\n+BYE\r\n")
	// The client doesn't go: it is gone after a while.
	until(t, "the connection is closed", func() bool { return w.stats().Connections == 0 })
	w.on(func() {
		if w.handler.closed != 1 || len(w.handler.order) != 2 {
			t.Errorf("%d closed, %d requests; want 1, 2", w.handler.closed, len(w.handler.order))
		}
	})
}

func TestFlushComesBeforeReplies(t *testing.T) {
	w := start(t, loop.Config{})
	let, entered := make(chan struct{}), make(chan struct{})
	w.on(func() {
		w.handler.onFlush = func() {
			if w.handler.values["k"] != "" {
				w.handler.onFlush = nil
				close(entered)
				<-let
			}
		}
	})
	conn := w.dial()
	write(t, conn, request("SET", "k", "v"))
	<-entered
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, before the flush was done", n, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	close(let)
	expect(t, conn, "$1\r\nk\r\n")
}

func TestFlushFails(t *testing.T) {
	w := start(t, loop.Config{})
	writer, reader := w.dial(), w.dial()
	w.on(func() { w.handler.failing = errors.New("no space") })
	write(t, reader, request("GET", "k"))
	expect(t, reader, "$0\r\n\r\n")
	write(t, writer, append(request("SET", "k", "v"), request("GET", "k")...))
	expectGone(t, writer)
	write(t, reader, request("PING"))
	expect(t, reader, "+PONG\r\n")
	if got := w.stats().Unflushed; got != 1 {
		t.Errorf("%d connections were closed for a flush that failed, want 1", got)
	}
	w.stop()
	if n := strings.Count(w.log.String(), "no space"); n != 1 {
		t.Errorf("the failure was logged %d times, want once: %s", n, w.log)
	}
}

func TestHoldAndRelease(t *testing.T) {
	w := start(t, loop.Config{})
	held, other := w.dial(), w.dial()
	write(t, held, append(request("HOLD"), request("PING")...))
	until(t, "it is held", func() bool {
		var n int
		w.on(func() { n = len(w.handler.holding) })
		return n == 1
	})
	write(t, held, request("ECHO", "later"))
	write(t, other, request("RELEASE"))
	expect(t, other, "+OK\r\n")
	expect(t, held, "+RELEASED\r\n+PONG\r\n$5\r\nlater\r\n")
	write(t, held, request("PING"))
	expect(t, held, "+PONG\r\n")
}

func TestHeldClientLeaves(t *testing.T) {
	w := start(t, loop.Config{})
	held := w.dial()
	write(t, held, append(request("HOLD"), request("PING")...))
	until(t, "it is held", func() bool {
		var n int
		w.on(func() { n = len(w.handler.holding) })
		return n == 1
	})
	_ = held.Close()
	until(t, "it is gone", func() bool { return w.stats().Connections == 0 })
	w.on(w.handler.release)
	w.on(func() {
		if w.handler.closed != 1 || len(w.handler.order) != 1 {
			t.Errorf("%d closed, %d requests ran; want 1, 1", w.handler.closed, len(w.handler.order))
		}
	})
}

func TestHalfClosed(t *testing.T) {
	w := start(t, loop.Config{})
	for _, at := range [][2]string{{"tcp", w.tcp}, {"unix", w.unix}} {
		conn := w.dialTo(at[0], at[1])
		var want strings.Builder
		for range 1000 {
			write(t, conn, request("ECHO", "value"))
			want.WriteString("$5\r\nvalue\r\n")
		}
		// And a request that never is complete.
		write(t, conn, []byte("*1\r\n$4\r\nPI"))
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		expectEnd(t, conn, want.String())
	}
	until(t, "they are gone", func() bool { return w.stats().Connections == 0 })
}

func TestPost(t *testing.T) {
	w := start(t, loop.Config{})
	var n int
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				w.loop.Post(func() { n++ })
			}
		})
	}
	all.Wait()
	w.stop()
	if n != 800 {
		t.Errorf("%d of 800 ran", n)
	}
	if w.loop.Post(func() { t.Error("this ran after the end") }) {
		t.Error("Post says true after the end")
	}
}

func TestTick(t *testing.T) {
	w := start(t, loop.Config{})
	// It asked for an hour, the first time.
	conn := w.client()
	for range 20 {
		if _, err := conn.Do("PING"); err != nil {
			t.Fatal(err)
		}
	}
	var first int
	w.on(func() { first = w.handler.ticks })
	if first > 5 {
		t.Errorf("%d ticks in a moment, though an hour was asked for", first)
	}
	w.on(func() { w.handler.pause, w.handler.ticks = 0, 0 })
	// A round with nothing to do ticks, and then there is work.
	until(t, "many ticks", func() bool {
		var n int
		w.on(func() { n = w.handler.ticks })
		return n > 1000
	})
	if _, err := conn.Do("PING"); err != nil {
		t.Errorf("while there is work: %v", err)
	}
	w.on(func() { w.handler.pause = time.Hour })
}

func TestListeners(t *testing.T) {
	w := start(t, loop.Config{})
	files, err := w.loop.Listeners(true)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d admin listeners, %v; want 1", len(files), err)
	}
	_ = files[0].Close()
	files, err = w.loop.Listeners(false)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d listeners, %v; want 2", len(files), err)
	}
	// The socket lives on in a process with a duplicate, and clients queue there.
	w.stop()
	queued := w.dial()
	write(t, queued, request("PING"))
	next := start(t, loop.Config{})
	for _, f := range files {
		// Whoever has the socket too may make it a blocking one: the loop must not wait
		// in it for ever.
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
			t.Fatal(err)
		}
		if err := next.loop.Listen(f, false); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, queued, "+PONG\r\n")
}

func TestInvalidListeners(t *testing.T) {
	w := start(t, loop.Config{})
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	udp, err := packets.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := w.dial().(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{file, udp, tcp} {
		if err := w.loop.Listen(f, false); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on ") {
			t.Errorf("listening on %s: %v", f.Name(), err)
		}
		if _, err := f.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s wasn't closed: %v", f.Name(), err)
		}
	}
}

func TestEnd(t *testing.T) {
	w := start(t, loop.Config{})
	conns := []net.Conn{w.dial(), w.dialTo("unix", w.unix)}
	for _, c := range conns {
		write(t, c, request("PING"))
		expect(t, c, "+PONG\r\n")
	}
	w.stop()
	for _, c := range conns {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("after the end: read %d, %v", n, err)
		}
	}
	if w.handler.closed != 2 {
		t.Errorf("%d connections were closed, want 2", w.handler.closed)
	}
	if c, err := net.Dial("tcp", w.tcp); err == nil {
		_ = c.Close()
		t.Error("there is a listener after the end")
	}
	if s := w.loop.Stats(); s.Connections != 0 || s.Buffers != 0 {
		t.Errorf("after the end there are %d connections and %d bytes of buffers", s.Connections, s.Buffers)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.loop.Listen(f, false); err == nil {
		t.Error("it listens after the end")
	}
}

func TestRunWithADoneContext(t *testing.T) {
	l, err := loop.New(loop.Config{Handler: &script{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config loop.Config
		want   string
	}{
		{loop.Config{}, "Handler is nil"},
		{loop.Config{Handler: &script{}, MaxConnections: -1}, "MaxConnections is -1"},
		{loop.Config{Handler: &script{}, MaxBuffers: 1000}, "MaxBuffers is 1000"},
		{loop.Config{Handler: &script{}, Idle: -1}, "Idle is -1"},
	} {
		if _, err := loop.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

// A connection that no loop has: handlers can be tested with it.
func TestConnWithoutALoop(t *testing.T) {
	var c loop.Conn
	c.Hold()
	c.Release()
	c.AwaitFlush()
	c.CloseAfter()
	if c.Room() <= 0 || time.Since(c.Now()) > time.Minute {
		t.Errorf("Room %d, Now %v", c.Room(), c.Now())
	}
}
