package web_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
	"github.com/croft-edge/croft/cmd/croft-init/internal/web"
)

const patience = 30 * time.Second

// fake is a terminal whose programs the test plays.
type fake struct {
	input, output *io.PipeWriter
	typed, shown  *io.PipeReader
	sizes         chan console.Size
	done          chan struct{}
	closed        chan struct{}
	once          sync.Once
}

func newFake() *fake {
	f := &fake{sizes: make(chan console.Size, 16), done: make(chan struct{}), closed: make(chan struct{})}
	f.typed, f.input = io.Pipe()
	f.shown, f.output = io.Pipe()
	return f
}

func (f *fake) Read(p []byte) (int, error)  { return f.shown.Read(p) }
func (f *fake) Write(p []byte) error        { _, err := f.input.Write(p); return err }
func (f *fake) Resize(s console.Size) error { f.sizes <- s; return nil }
func (f *fake) Done() <-chan struct{}       { return f.done }
func (f *fake) Code() int                   { return 3 }
func (f *fake) Drain() error                { return f.output.Close() }
func (f *fake) Close() {
	f.once.Do(func() { close(f.closed); f.input.Close(); f.shown.Close() })
}

// world is a server on a port of 127.0.0.1, and the terminals that it opened.
type world struct {
	*testing.T
	address   netip.AddrPort
	terminals chan *fake
	log       *bytes.Buffer
	stop      func()
}

func newWorld(t *testing.T, change func(*web.Config)) *world {
	t.Helper()
	w := &world{T: t, address: freePort(t), terminals: make(chan *fake, 64), log: &bytes.Buffer{}}
	c := web.Config{
		Listen: []netip.AddrPort{w.address}, Names: []string{"box"}, Log: w.log, Again: 20 * time.Millisecond,
		Open: func(console.Size) (web.Terminal, error) {
			f := newFake()
			w.terminals <- f
			return f, nil
		},
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := web.New(c)
	server.Listen(ctx)
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(ctx) }()
	w.stop = func() { cancel(); <-served }
	t.Cleanup(func() {
		w.stop()
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // a second of politeness
	})
	return w
}

// freePort is a port that is free at the moment.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func (w *world) url(path string) string { return "http://" + w.address.String() + path }

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	return ctx
}

// dial opens a terminal as the page does.
func (w *world) dial() (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(w.context(), w.url("/ws"), &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://" + w.address.String()}}})
}

func (w *world) open() (*websocket.Conn, *fake) {
	w.Helper()
	conn, _, err := w.dial()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.CloseNow() })
	return conn, w.terminal()
}

func (w *world) terminal() *fake {
	w.Helper()
	select {
	case f := <-w.terminals:
		return f
	case <-time.After(patience):
		w.Fatal("no terminal was opened")
		return nil
	}
}

func (w *world) mustClose(f *fake) {
	w.Helper()
	select {
	case <-f.closed:
	case <-time.After(patience):
		w.Fatal("the terminal must be closed")
	}
}

// reason reads until the end, and returns its reason.
func (w *world) reason(conn *websocket.Conn) (websocket.StatusCode, string) {
	w.Helper()
	for {
		if _, _, err := conn.Read(w.context()); err != nil {
			var end websocket.CloseError
			if !asClose(err, &end) {
				w.Fatalf("the connection must end with a reason: %v", err)
			}
			return end.Code, end.Reason
		}
	}
}

func TestBytesAndSizesGoThrough(t *testing.T) {
	w := newWorld(t, nil)
	conn, terminal := w.open()
	if err := conn.Write(w.context(), websocket.MessageBinary, []byte("ls\r\x00\xff")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(terminal.typed, got); err != nil || string(got) != "ls\r\x00\xff" {
		t.Fatalf("typed %q, %v", got, err)
	}
	if _, err := terminal.output.Write([]byte("\x1b[31mred\xff")); err != nil {
		t.Fatal(err)
	}
	kind, message, err := conn.Read(w.context())
	if err != nil || kind != websocket.MessageBinary || string(message) != "\x1b[31mred\xff" {
		t.Fatalf("shown %v %q, %v", kind, message, err)
	}
	if err := conn.Write(w.context(), websocket.MessageText, []byte(`{"columns":132,"rows":50}`)); err != nil {
		t.Fatal(err)
	}
	if size := <-terminal.sizes; size != (console.Size{Columns: 132, Rows: 50}) {
		t.Errorf("resized to %v", size)
	}
	close(terminal.done)
	if code, why := w.reason(conn); code != websocket.StatusNormalClosure || why != "the shell has ended with code 3" {
		t.Errorf("ended with %v %q", code, why)
	}
	w.mustClose(terminal)
}

func TestAClientThatGoesEndsItsTerminal(t *testing.T) {
	w := newWorld(t, nil)
	conn, terminal := w.open()
	conn.CloseNow()
	w.mustClose(terminal)
	conn, terminal = w.open()
	conn.Close(websocket.StatusNormalClosure, "")
	w.mustClose(terminal)
}

func TestBadSizesEndATerminal(t *testing.T) {
	w := newWorld(t, nil)
	for _, message := range []string{`{"columns":0,"rows":24}`, `{"columns":80}`, `{"columns":1001,"rows":24}`, `{"columns":80,"rows":70000}`, `{"columns":-1,"rows":1}`, `[]`, `x`} {
		conn, terminal := w.open()
		if err := conn.Write(w.context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if code, why := w.reason(conn); code != websocket.StatusPolicyViolation || !strings.HasPrefix(why, "cannot resize") {
			t.Errorf("%s: ended with %v %q", message, code, why)
		}
		w.mustClose(terminal)
	}
}

func TestAMessageThatIsTooLongEndsATerminal(t *testing.T) {
	w := newWorld(t, nil)
	conn, terminal := w.open()
	_ = conn.Write(w.context(), websocket.MessageBinary, make([]byte, 65<<10))
	if code, _ := w.reason(conn); code != websocket.StatusMessageTooBig {
		t.Errorf("ended with %v", code)
	}
	w.mustClose(terminal)
}

func TestTheSeventeenthTerminalIsRefusedUntilOneEnds(t *testing.T) {
	w := newWorld(t, nil)
	var conns []*websocket.Conn
	var terminals []*fake
	for range 16 {
		conn, terminal := w.open()
		conns, terminals = append(conns, conn), append(terminals, terminal)
	}
	conn, _, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	if code, why := w.reason(conn); code != websocket.StatusTryAgainLater || !strings.Contains(why, "16 terminals are open") {
		t.Errorf("the 17th ended with %v %q", code, why)
	}
	conns[5].Close(websocket.StatusNormalClosure, "")
	w.mustClose(terminals[5])
	for deadline := time.Now().Add(patience); ; {
		conn, _, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.terminals:
			conn.CloseNow()
			return
		case <-time.After(100 * time.Millisecond):
		}
		conn.CloseNow()
		if time.Now().After(deadline) {
			t.Fatal("no terminal is free, though one has ended")
		}
	}
}

func TestAClientThatDoesntReadIsDropped(t *testing.T) {
	w := newWorld(t, func(c *web.Config) { c.Patience = 300 * time.Millisecond })
	_, terminal := w.open() // and never reads
	chunk := make([]byte, 16<<10)
	total := 0
	for {
		n, err := terminal.output.Write(chunk)
		total += n
		if err != nil {
			break
		}
		if total > 256<<20 {
			t.Fatal("output isn't held back")
		}
	}
	w.mustClose(terminal)
}

func TestAClientThatDoesntAnswerIsDropped(t *testing.T) {
	w := newWorld(t, func(c *web.Config) { c.Ping, c.Patience = 50*time.Millisecond, 300*time.Millisecond })
	_, silent := w.open() // only a client that reads answers pings
	conn, lively := w.open()
	go func() {
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	w.mustClose(silent)
	select {
	case <-lively.closed:
		t.Error("a client that answers must stay")
	default:
	}
	conn.CloseNow()
	w.mustClose(lively)
}

func TestServersEndIsReported(t *testing.T) {
	w := newWorld(t, nil)
	conn, terminal := w.open()
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	if code, why := w.reason(conn); code != websocket.StatusGoingAway || why != "the container has ended" {
		t.Errorf("ended with %v %q", code, why)
	}
	w.mustClose(terminal)
	<-stopped
}

func TestWithoutAShellThereIsASentence(t *testing.T) {
	w := newWorld(t, func(c *web.Config) {
		c.Open = func(console.Size) (web.Terminal, error) { return nil, web.ErrNoShell }
	})
	conn, _, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	if code, why := w.reason(conn); code != websocket.StatusInternalError || why != "This image has no shell: neither $SHELL nor /bin/bash, /bin/sh, /bin/ash is there." {
		t.Errorf("ended with %v %q", code, why)
	}
}
