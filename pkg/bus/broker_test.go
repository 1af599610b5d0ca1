package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/node"
)

func brokerWorld(t *testing.T) *world {
	noLeaks(t)
	w := &world{t: t, name: "broker", logs: &logBuffer{}, resumed: make(chan string, 1000)}
	openBroker(w)
	return w
}

func TestBrokerOnlyTakesCallsAndHandsOutStreams(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	c := w.dialRaw(t)
	for _, test := range []struct {
		words []any
		want  string
	}{
		{[]any{"RPUSH", "other.object@1.0", "x"}, "NOPERM no object is served on that queue"},
		{[]any{"RPUSH", someUUID, "x"}, "NOPERM no object is served on that queue"},
		{[]any{"RPUSH", queueKey, "x", "y"}, "ERR RPUSH takes"},
		{[]any{"BLPOP", queueKey, 1}, "NOPERM only reply keys"},
		{[]any{"BLPOP", someUUID, queueKey, 1}, "NOPERM only reply keys"},
		{[]any{"BLPOP", someUUID, "soon"}, "ERR timeout must be"},
		{[]any{"BLPOP", someUUID, "-1"}, "ERR timeout must be"},
		{[]any{"BLPOP", someUUID, "NaN"}, "ERR timeout must be"},
		{[]any{"BLPOP", someUUID}, "ERR BLPOP takes"},
		{[]any{"PUBLISH", queueKey + ".Ticks", "x"}, "NOPERM PUBLISH is not allowed"},
		{[]any{"LPOP", queueKey}, "NOPERM LPOP"},
		{[]any{"PSUBSCRIBE", "*"}, "NOPERM PSUBSCRIBE"},
		{[]any{"MONITOR"}, "NOPERM MONITOR"},
		{[]any{"FLUSHALL"}, "ERR unknown command"},
		{[]any{"CONFIG", "GET", "*"}, "ERR unknown command"},
		{[]any{"EVAL", "return 1", 0}, "ERR unknown command"},
		{[]any{"SELECT", 1}, "ERR unknown command"},
		{[]any{"HELLO", 3}, "NOPROTO"},
		{[]any{"AUTH", "x"}, "ERR no password is set"},
		{[]any{"SUBSCRIBE", strings.Repeat("x", 513)}, "ERR a channel's name"},
	} {
		reply, err := c.Do(test.words[0].(string), test.words[1:]...)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v: got %v, %v; want %s", test.words, reply, err, test.want)
		}
	}
	for _, words := range [][]any{{"PING"}, {"ECHO", "x"}, {"SELECT", 0}, {"CLIENT", "SETNAME", "me"}, {"COMMAND", "DOCS"}, {"EXPIRE", queueKey, 1}, {"QUIT"}} {
		if _, err := c.Do(words[0].(string), words[1:]...); err != nil {
			t.Errorf("%v: %v", words, err)
		}
	}
}

func TestBrokerForRedisCLI(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	cli := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(timeout(t, 10*time.Second), "redis-cli", append([]string{"-s", w.url[len("unix://"):]}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := cli("", "PING"); got != "PONG" {
		t.Errorf("PING: %s", got)
	}
	req, err := zbus.NewRequest("x", someUUID, object(), "Echo", "from the shell")
	if err != nil {
		t.Fatal(err)
	}
	frame := must(req.Encode())
	if got := cli(string(frame), "-x", "RPUSH", queueKey); got != "1" {
		t.Errorf("RPUSH: %s", got)
	}
	if got := cli("", "BLPOP", someUUID, "5"); !strings.Contains(got, "from the shell") {
		t.Errorf("BLPOP: %q", got)
	}
	cmd := exec.CommandContext(timeout(t, 10*time.Second), "redis-cli", "-s", w.url[len("unix://"):], "SUBSCRIBE", queueKey+".Ticks")
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "message" {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if lines.Text() != "message" {
		t.Error("redis-cli saw no event")
	}
}

func TestBrokerRefusesBrokenProtocol(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	huge := fmt.Sprintf("$%d\r\n", bus.MaxFrame+1)
	for _, sent := range []string{
		"PING\r\n", "GET / HTTP/1.1\r\n", "*65\r\n", "*-1\r\n", "*99999999999999999999\r\n", "*1\r\n" + huge, "*1\r\n$-1\r\n",
		"*1\r\n$4\r\nPINGxx", "*x\r\n", "\r\n", "*1\n", "*2\r\n$600\r\n" + strings.Repeat("x", 600) + "\r\n$600\r\n", strings.Repeat("*", 600),
	} {
		conn, err := net.Dial("unix", w.url[len("unix://"):])
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		// Input unread at the broker's hang-up comes as a reset, after the answer.
		got, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(got), "-ERR ") || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: got %q, %v", sent, got, err)
		}
		_ = conn.Close()
	}
	if _, err := call[string](timeout(t, 5*time.Second), w.client(), "Echo", "alive"); err != nil {
		t.Error(err)
	}
}

func TestBrokerLimitsItsClients(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	path := w.url[len("unix://"):]
	var conns []net.Conn
	refused := 0
	for range 80 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
		if line, _ := bufio.NewReader(conn).ReadString('\n'); strings.Contains(line, "max number of clients") {
			refused++
		}
	}
	if refused < 16 || refused > 20 {
		t.Errorf("%d of 80 connections were refused", refused)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, time.Minute, "there is room again", func() bool {
		c, err := bus.Dial(timeout(t, time.Second), w.url, bus.Options{})
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestBrokerLimitsQueuedFrames(t *testing.T) {
	w := brokerWorld(t)
	s := w.server(newWorker())
	background(t, s.Run)()
	c := w.dialRaw(t)
	frames := 0
	var err error
	for ; frames < 2000; frames++ {
		if _, err = c.Do("RPUSH", queueKey, "x"); err != nil {
			break
		}
	}
	if frames != 1024 || !strings.Contains(err.Error(), "1024 frames wait already") {
		t.Errorf("%d frames were queued: %v", frames, err)
	}
	_, err = call[string](timeout(t, time.Second), w.client(), "Echo", "x")
	wantKind(t, err, node.Transient)
}

func TestBrokerClientThatHangsUpHoldsNothing(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	for range 5 {
		c, err := redis.Dial("unix", w.url[len("unix://"):])
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Send("SUBSCRIBE", "a", "b")
		_ = c.Send("BLPOP", someUUID, 0)
		_ = c.Flush()
		if _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	// The end of the world checks the goroutines.
}

func TestBrokerStreamsOnOneConnection(t *testing.T) {
	w := brokerWorld(t)
	w.serve()
	raw := w.dialRaw(t)
	ps := redis.PubSubConn{Conn: raw}
	if err := ps.Subscribe("x", "x", queueKey+".Ticks"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []redis.Subscription{{Kind: "subscribe", Channel: "x", Count: 1}, {Kind: "subscribe", Channel: "x", Count: 1}, {Kind: "subscribe", Channel: queueKey + ".Ticks", Count: 2}} {
		if got := ps.Receive(); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if m, ok := ps.Receive().(redis.Message); !ok || m.Channel != queueKey+".Ticks" {
		t.Fatalf("got %v", m)
	}
	if err := ps.Ping(""); err != nil {
		t.Fatal(err)
	}
	if err := ps.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	left, pong := 2, false
	for left > 0 {
		switch m := ps.Receive().(type) {
		case redis.Pong:
			pong = true
		case redis.Subscription:
			left = m.Count
		case error:
			t.Fatal(m)
		}
	}
	if err := ps.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if m, ok := ps.Receive().(redis.Subscription); !ok || m.Count != 0 || !pong {
		t.Errorf("got %v, pong %t", m, pong)
	}
	if got, err := redis.String(raw.Do("PING")); err != nil || got != "PONG" {
		t.Errorf("after the streams: %q, %v", got, err)
	}
}

func TestBrokerSocket(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	path := filepath.Join(shortDir(t), "run", "bus.sock")
	listen := func() (*broker.Broker, error) { return broker.Listen(b, "unix://"+path, zerolog.Nop()) }

	first, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if info := must(os.Lstat(path)); info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket's mode is %s", info.Mode())
	}
	_, err = listen()
	wantKind(t, err, node.Refused)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}

	// A killed process's socket is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = listen()
	wantKind(t, err, node.Refused)
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	second, err := listen()
	if err != nil {
		t.Fatalf("with a stale socket: %v", err)
	}

	// A successor's socket isn't removed.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	_, err = listen()
	wantKind(t, err, node.Exist)
	if got := must(os.ReadFile(path)); string(got) != "precious" {
		t.Errorf("the file holds %q", got)
	}
	for _, url := range []string{"redis://127.0.0.1", "tcp://127.0.0.1:1", "unix://rel", "unix:///" + strings.Repeat("x", 100), "unix://:pw@/x", "unix:///x?db=1"} {
		_, err := broker.Listen(b, url, zerolog.Nop())
		wantKind(t, err, node.Invalid)
	}
	entries := must(os.ReadDir(filepath.Dir(path)))
	if len(entries) != 2 {
		t.Errorf("left in the folder: %v", entries)
	}
}

func TestBrokerStopsAtOnce(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	url := "unix://" + filepath.Join(shortDir(t), "bus.sock")
	listening, err := broker.Listen(b, url, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	stop := background(t, listening.Run)
	c, err := bus.Dial(timeout(t, 5*time.Second), url, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stream(t.Context(), module, object(), "Ticks"); err != nil {
		t.Fatal(err)
	}
	within(t, slack, "stopping", stop)
	// Unknown where the connection took the request and ended before it gave an answer.
	_, err = call[string](context.Background(), c, "Echo", "x")
	if kind := node.KindOf(err); kind != node.Transient && kind != node.Unknown {
		t.Errorf("a call of a broker that has stopped gives %v (%s), want Transient or Unknown", err, kind)
	}
}
