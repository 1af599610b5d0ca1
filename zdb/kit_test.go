package zdb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programs)
		os.Exit(code)
	}))
}

// bench is a server without sockets.
type bench struct {
	t   testing.TB
	cfg zdb.Config
	srv *zdb.Server
}

// open opens a server in a new folder, or in cfg.Data; it is closed with the test.
func open(t testing.TB, cfg zdb.Config) *bench {
	t.Helper()
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	b := &bench{t: t, cfg: cfg}
	b.start()
	t.Cleanup(b.close)
	return b
}

func (b *bench) start() {
	b.t.Helper()
	srv, err := zdb.New(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = srv
	srv.PageTime(time.Hour) // what a page has must not depend on who else computes
}

func (b *bench) close() {
	b.t.Helper()
	if b.srv == nil {
		return
	}
	if err := b.srv.Close(); err != nil {
		b.t.Error(err)
	}
	b.srv = nil
}

// again closes the server and opens it on the same folders.
func (b *bench) again() {
	b.t.Helper()
	b.close()
	b.start()
}

// client is a connection that has no socket.
type client struct {
	b    *bench
	conn *loop.Conn
}

func (b *bench) client() *client { return b.enter(false) }

// admin is a connection over the admin's socket.
func (b *bench) admin() *client { return b.enter(true) }

func (b *bench) enter(admin bool) *client {
	c := &client{b: b, conn: &loop.Conn{Admin: admin}}
	b.srv.Open(c.conn)
	return c
}

func (c *client) leave() { c.b.srv.Closed(c.conn) }

// do runs a command and returns the whole reply.
func (c *client) do(args ...string) string {
	c.b.t.Helper()
	c.send(args...)
	if err := c.b.srv.Flush(); err != nil {
		c.b.t.Fatal(err)
	}
	return c.got()
}

func (c *client) send(args ...string) {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	c.b.srv.Command(c.conn, list)
}

// got takes the answers since the last call.
func (c *client) got() string {
	out := string(c.conn.Out)
	c.conn.Out = c.conn.Out[:0]
	return out
}

// want runs a command, given as words, and compares its reply.
func (c *client) want(reply, command string) {
	c.b.t.Helper()
	if got := c.do(strings.Fields(command)...); got != reply {
		c.b.t.Errorf("%s: got %q, want %q", command, clip([]byte(got)), clip([]byte(reply)))
	}
}

// all runs commands that must answer OK.
func (c *client) all(commands ...string) {
	c.b.t.Helper()
	for _, command := range commands {
		c.want("+OK\r\n", command)
	}
}

// field is a line of INFO or NSINFO.
func (c *client) field(command, name string) string {
	c.b.t.Helper()
	reply := c.do(strings.Fields(command)...)
	for line := range strings.Lines(reply) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	c.b.t.Fatalf("%s has no line %q:\n%s", command, name, reply)
	return ""
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

const (
	null = "$-1\r\n"
	ok   = "+OK\r\n"
)

// parse reads a reply: nil, string, int or a slice of them.
func parse(t interface{ Fatalf(string, ...any) }, s string) any {
	v, rest := parseOne(t, []byte(s))
	if len(rest) > 0 {
		t.Fatalf("%q is too much", rest)
	}
	return v
}

func parseOne(t interface{ Fatalf(string, ...any) }, b []byte) (any, []byte) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) == 0 {
		t.Fatalf("no reply: %q", b)
	}
	n := 0
	fmt.Sscan(string(line[1:]), &n)
	switch line[0] {
	case '$':
		if n < 0 {
			return nil, rest
		}
		return string(rest[:n]), rest[n+2:]
	case '*':
		var list []any
		for range n {
			var v any
			v, rest = parseOne(t, rest)
			list = append(list, v)
		}
		return list, rest
	case ':':
		return n, rest
	}
	t.Fatalf("got %q", line)
	return nil, nil
}

// du is how many bytes the files below a folder have.
func du(t testing.TB, folder string) int64 {
	t.Helper()
	var sum int64
	err := filepath.Walk(folder, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return sum
}

// soon polls for what becomes true.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
