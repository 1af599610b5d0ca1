package loop_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/loop"
)

func TestThousandConnections(t *testing.T) {
	w := start(t, loop.Config{MaxSource: 1000})
	conns := make([]net.Conn, 1000)
	for i := range conns {
		if i%2 == 0 {
			conns[i] = w.dial()
		} else {
			conns[i] = w.dialTo("unix", w.unix)
		}
	}
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() {
			for k := range 5 {
				value := strconv.Itoa(i*10 + k)
				ask := request("ECHO", value)
				if _, err := c.Write(append(ask, ask...)); err != nil {
					t.Error(err)
					return
				}
				want := strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", len(value), value), 2)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
					t.Errorf("connection %d got %q, %v; want %q", i, got, err, want)
					return
				}
			}
		})
	}
	all.Wait()
	if s := w.stats(); s.Connections != 1000 || s.Requests != 10000 || s.Buffers != 0 {
		t.Errorf("%d connections, %d requests, %d bytes of buffers; want 1000, 10000, 0", s.Connections, s.Requests, s.Buffers)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	until(t, "all are gone", func() bool { return w.stats().Connections == 0 })
	w.on(func() {
		if w.handler.opened != 1000 || w.handler.closed != 1000 {
			t.Errorf("%d were opened and %d closed, want 1000", w.handler.opened, w.handler.closed)
		}
	})
}

// Requests of all sizes that come byte by byte, or in pieces that end anywhere.
func TestRequestsInPieces(t *testing.T) {
	w := start(t, loop.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	var ask []byte
	var want strings.Builder
	for _, size := range []int{0, 1, 5, 300, 4096, 5000, 70_000, 3, 300_000, 7} {
		value := strings.Repeat(string(rune('a'+size%26)), size)
		ask = append(ask, request("ECHO", value)...)
		fmt.Fprintf(&want, "$%d\r\n%s\r\n", size, value)
	}
	for _, most := range []int{1, 100, 100_000} {
		conn := w.dialTo("unix", w.unix)
		go func() {
			for left := ask; len(left) > 0; {
				n := min(1+r.IntN(most), len(left))
				// The large ones byte by byte would take long and show nothing more.
				if len(left) < len(ask)-20_000 {
					n = min(len(left), n*500)
				}
				if _, err := conn.Write(left[:n]); err != nil {
					t.Error(err)
					return
				}
				left = left[n:]
			}
		}()
		expect(t, conn, want.String())
	}
	if got := w.stats().Buffers; got != 0 {
		t.Errorf("%d bytes of buffers are held when all is answered", got)
	}
}

// An argument of the greatest size costs the same in small pieces as in large
// ones.
func TestLargestArgument(t *testing.T) {
	w := start(t, loop.Config{})
	conn := w.dialTo("unix", w.unix)
	const size = 8 << 20
	ask := request("SUM", strings.Repeat("x", size))
	for _, piece := range []int{len(ask), 1000} {
		go func() {
			for left := ask; len(left) > 0; left = left[min(piece, len(left)):] {
				if _, err := conn.Write(left[:min(piece, len(left))]); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		expect(t, conn, fmt.Sprintf(":%d\r\n", size))
	}
	until(t, "its buffer is given back", func() bool { return w.stats().Buffers == 0 })
}

// A client may go at any point of a request, and of a reply.
func TestLeavingAtEveryPoint(t *testing.T) {
	w := start(t, loop.Config{})
	ask := append(request("SET", "k", "value"), request("BIG", "200000")...)
	for _, at := range [][2]string{{"tcp", w.tcp}, {"unix", w.unix}} {
		for n := range len(ask) + 1 {
			conn := w.dialTo(at[0], at[1])
			write(t, conn, ask[:n])
			_ = conn.Close()
		}
		for n := 0; n < 200_000; n += 20_011 {
			conn := w.dialTo(at[0], at[1])
			write(t, conn, ask)
			if _, err := io.CopyN(io.Discard, conn, int64(n)); err != nil {
				t.Fatal(err)
			}
			if tcp, ok := conn.(*net.TCPConn); ok && n%2 == 0 {
				// With a reset instead of an end.
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	}
	until(t, "all are gone", func() bool { return w.stats().Connections == 0 })
	conn := w.dial()
	write(t, conn, request("PING"))
	expect(t, conn, "+PONG\r\n")
	w.on(func() {
		if w.handler.opened != w.handler.closed+1 {
			t.Errorf("%d were opened, %d closed", w.handler.opened, w.handler.closed)
		}
	})
}

// A client asks for a hundred megabytes and reads nothing: the memory held for it
// is bounded, others are served, and in the end it gets all of it.
func TestSlowReader(t *testing.T) {
	w := start(t, loop.Config{})
	slow, other := w.dial(), w.dial()
	const each, times = 100_000, 1000
	ask := bytes.Repeat(request("BIG", strconv.Itoa(each)), times)
	write(t, slow, ask)
	until(t, "it is served no more", func() bool {
		before := w.stats()
		for range 10 {
			write(t, other, request("PING"))
			expect(t, other, "+PONG\r\n")
		}
		after := w.stats()
		return after.Sent-before.Sent < 100 && after.Requests > 10
	})
	s := w.stats()
	if s.Buffers > 4<<20 || s.Requests > times/2 {
		t.Errorf("%d bytes are held for a client that doesn't read, %d requests have run", s.Buffers, s.Requests)
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 64<<20 {
		t.Errorf("the heap has %d bytes", memory.HeapAlloc)
	}
	from := bufio.NewReader(slow)
	for i := range times {
		if line, err := from.ReadString('\n'); line != "$100000\r\n" || err != nil {
			t.Fatalf("reply %d begins with %q, %v", i, line, err)
		}
		if n, err := from.Discard(each + 2); err != nil {
			t.Fatalf("reply %d has %d bytes: %v", i, n, err)
		}
	}
	if got := w.stats().Buffers; got != 0 {
		t.Errorf("%d bytes are held in the end", got)
	}
}

// The client with the longest pipeline doesn't keep others waiting: they have
// their turn after a few of its requests.
func TestFairness(t *testing.T) {
	w := start(t, loop.Config{})
	greedy, modest := w.dialTo("unix", w.unix), w.dialTo("unix", w.unix)
	write(t, modest, request("NAME", "modest"))
	expect(t, modest, "+OK\r\n")
	write(t, greedy, request("NAME", "greedy"))
	expect(t, greedy, "+OK\r\n")
	// All is there before the first one runs.
	let, entered := make(chan struct{}), make(chan struct{})
	w.loop.Post(func() {
		w.handler.order = nil
		close(entered)
		<-let
	})
	<-entered
	write(t, greedy, bytes.Repeat(request("PING"), 10_000))
	write(t, modest, request("PING"))
	close(let)
	expect(t, modest, "+PONG\r\n")
	expect(t, greedy, strings.Repeat("+PONG\r\n", 10_000))
	w.on(func() {
		for i, who := range w.handler.order {
			if who == "modest" {
				if i > 300 {
					t.Errorf("the modest client had its turn after %d requests of the other", i)
				}
				return
			}
		}
		t.Error("the modest client had no turn")
	})
}

func TestConnectionLimit(t *testing.T) {
	w := start(t, loop.Config{MaxConnections: 3})
	var conns []net.Conn
	for range 3 {
		c := w.dial()
		write(t, c, request("PING"))
		expect(t, c, "+PONG\r\n")
		conns = append(conns, c)
	}
	for range 2 {
		expectEnd(t, w.dial(), "-Too many connections\r\n")
	}
	if s := w.stats(); s.Refused != 2 || s.Accepted != 3 {
		t.Errorf("%d refused, %d accepted; want 2, 3", s.Refused, s.Accepted)
	}
	_ = conns[0].Close()
	until(t, "one has gone", func() bool { return w.stats().Connections == 2 })
	c := w.dial()
	write(t, c, request("PING"))
	expect(t, c, "+PONG\r\n")
}

func TestIdle(t *testing.T) {
	const idle = 300 * time.Millisecond
	w := start(t, loop.Config{Idle: idle})
	began := time.Now()
	silent, unfinished, busy := w.dial(), w.dial(), w.dial()
	write(t, unfinished, []byte("*1\r\n"))
	go func() {
		tick := time.NewTicker(idle / 10)
		defer tick.Stop()
		for time.Since(began) < 3*idle {
			<-tick.C
			if _, err := busy.Write(request("PING")); err != nil {
				t.Error(err)
				return
			}
		}
		_ = busy.(*net.TCPConn).CloseWrite()
	}()
	expectEnd(t, silent, "")
	if after := time.Since(began); after < idle {
		t.Errorf("a silent connection was closed after %v", after)
	}
	expectEnd(t, unfinished, "")
	if _, err := io.ReadAll(busy); err != nil || time.Since(began) < 3*idle {
		t.Errorf("a busy connection ended after %v: %v", time.Since(began), err)
	}
	if got := w.stats().Idled; got != 2 {
		t.Errorf("%d connections were idle, want 2", got)
	}
}

// Clients that begin large requests and don't end them: the one with the most is
// told and closed, and those that ask for little never notice.
func TestBufferLimit(t *testing.T) {
	const limit = 8 << 20
	w := start(t, loop.Config{MaxBuffers: limit})
	var conns []net.Conn
	for range 8 {
		c := w.dialTo("unix", w.unix)
		conns = append(conns, c)
		write(t, c, request("PING"))
		expect(t, c, "+PONG\r\n")
		// A little less than its buffer holds.
		write(t, c, append([]byte("*2\r\n$3\r\nSUM\r\n$8000000\r\n"), bytes.Repeat([]byte("x"), 1_400_000)...))
		if s := w.stats(); s.Buffers > limit {
			t.Fatalf("%d bytes are held, at most %d are allowed", s.Buffers, limit)
		}
	}
	until(t, "some are closed", func() bool { return w.stats().Evicted >= 3 })
	told := 0
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if got, _ := io.ReadAll(c); string(got) == "-Server has too many requests pending\r\n" {
			told++
		}
	}
	if evicted := w.stats().Evicted; told != int(evicted) {
		t.Errorf("%d connections were closed and %d told why", evicted, told)
	}
	small := w.dial()
	write(t, small, request("PING"))
	expect(t, small, "+PONG\r\n")
}

// Replies that aren't read count too.
func TestBufferLimitOfReplies(t *testing.T) {
	w := start(t, loop.Config{MaxBuffers: 2 << 20})
	patient := w.dial()
	write(t, patient, request("PING"))
	expect(t, patient, "+PONG\r\n")
	greedy := w.dial()
	write(t, greedy, append(request("ECHO", "first"), request("BIG", "3000000")...))
	expectGone(t, greedy)
	write(t, patient, request("PING"))
	expect(t, patient, "+PONG\r\n")
	if s := w.stats(); s.Evicted != 1 || s.Buffers != 0 {
		t.Errorf("%d were closed, %d bytes are held; want 1, 0", s.Evicted, s.Buffers)
	}
}

// Without free file descriptors no connection is accepted, existing ones are served,
// and the loop doesn't spin. When some are free again, waiting connections are accepted.
func TestNoDescriptors(t *testing.T) {
	w := start(t, loop.Config{})
	there := w.dial()
	write(t, there, request("PING"))
	expect(t, there, "+PONG\r\n")
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	if err := unix.Connect(socket, &unix.SockaddrUnix{Name: w.unix}); err != nil {
		t.Fatal(err)
	}
	until(t, "accepting fails", func() bool { return w.stats().AcceptErrors > 0 })
	before := w.stats()
	timer := time.After(time.Second)
	asked := 0
	for waiting := true; waiting; asked++ {
		write(t, there, request("PING"))
		expect(t, there, "+PONG\r\n")
		select {
		case <-timer:
			waiting = false
		default:
		}
	}
	after := w.stats()
	if errs := after.AcceptErrors - before.AcceptErrors; errs > 5 {
		t.Errorf("accepting was tried %d times within a second", errs)
	}
	if rounds := int(after.Rounds - before.Rounds); rounds > 2*asked+20 {
		t.Errorf("%d rounds within a second, for %d requests", rounds, asked)
	}
	restore()
	if _, err := unix.Write(socket, request("PING")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if n, err := unix.Read(socket, got); err != nil || string(got[:n]) != "+PONG\r\n" {
		t.Errorf("who waited read %q, %v", got[:n], err)
	}
}

// Another holder of the socket may shut it down: then it isn't listening any more,
// and the loop doesn't spin.
func TestListenerThatIsShutDown(t *testing.T) {
	w := start(t, loop.Config{})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	f, err := tcp.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.loop.Listen(f, true); err != nil {
		t.Fatal(err)
	}
	if got := w.listeners(true); got != 2 {
		t.Fatalf("there are %d listeners, want 2", got)
	}
	raw, err := tcp.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RDWR) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it is taken out", func() bool { return w.listeners(true) == 1 })
	before := w.loop.Stats().Rounds
	<-time.After(200 * time.Millisecond)
	if rounds := w.loop.Stats().Rounds - before; rounds > 6 {
		t.Errorf("%d rounds in a moment", rounds)
	}
	conn := w.dial()
	write(t, conn, request("PING"))
	expect(t, conn, "+PONG\r\n")
}

// A loop that has nothing to do does nothing.
func TestIdleLoopSleeps(t *testing.T) {
	w := start(t, loop.Config{})
	conn := w.dial()
	write(t, conn, request("PING"))
	expect(t, conn, "+PONG\r\n")
	before := w.stats().Rounds
	<-time.After(2 * time.Second)
	if rounds := w.stats().Rounds - before; rounds > 6 {
		t.Errorf("%d rounds in two seconds without a request", rounds)
	}
}

// Nothing is allocated for a request and its reply.
func TestRequestsDontAllocate(t *testing.T) {
	w := start(t, loop.Config{})
	conn := w.dialTo("unix", w.unix)
	ask, answer := bytes.Repeat(request("PING"), 50), make([]byte, 50*len("+PONG\r\n"))
	turn := func() {
		if _, err := conn.Write(ask); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatal(err)
		}
	}
	// A string of the handler's own for each, and now and then what grows.
	if allocs := testing.AllocsPerRun(200, turn); allocs > 50+5 {
		t.Errorf("%v allocations for 50 requests", allocs)
	}
}
