package userapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

// raw is a TLS connection to the door on which a test writes any bytes.
type raw struct {
	*tls.Conn
	reader  *bufio.Reader
	binding []byte
}

func (w *world) raw() *raw {
	w.Helper()
	config := must[*tls.Config](w.T)(nodeapi.ClientConfig(w.node.ID()))
	conn := must[*tls.Conn](w.T)(tls.Dial("tcp", w.door.Address(), config))
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	state := conn.ConnectionState()
	return &raw{conn, bufio.NewReader(conn), must[[]byte](w.T)(nodeapi.Binding(&state))}
}

// request makes a test's request: signed as in, sent with method, target and body.
func (w *world) request(in nodeapi.Request, method, target string, body []byte) *http.Request {
	w.Helper()
	r := must[*http.Request](w.T)(http.NewRequest(method, "https://x"+target, bytes.NewReader(body)))
	in.Sign(w.user, r.Header)
	return r
}

func (w *world) good(c *raw) nodeapi.Request {
	return nodeapi.Request{Node: w.node.ID(), Method: "GET", Target: "/v1/workloads/7-1/status", Time: time.Now(), Binding: c.binding}
}

// answer sends a request and returns the answer's status and text.
func (c *raw) answer(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	if err := r.Write(c.Conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.reader, r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p explorer.Problem
	_ = json.Unmarshal(body, &p)
	return resp.StatusCode, p.Detail
}

// Each request is signed correctly but for one thing.
func TestForeignSignatures(t *testing.T) {
	w := newWorld(t)
	other := must[sign.KeyPair](t)(sign.Generate())
	const target = "/v1/workloads/7-1/status"
	for name, c := range map[string]struct {
		sign  func(r *nodeapi.Request)
		send  func(r *http.Request)
		words string
	}{
		"nothing wrong":       {words: ""},
		"unsigned":            {send: func(r *http.Request) { r.Header = http.Header{} }, words: "it isn't signed"},
		"another path":        {sign: func(r *nodeapi.Request) { r.Target = "/v1/workloads/8-1/status" }, words: "isn't one of"},
		"another query":       {sign: func(r *nodeapi.Request) { r.Target = target + "?x=1" }, words: "isn't one of"},
		"another method":      {sign: func(r *nodeapi.Request) { r.Method = "POST" }, words: "isn't one of"},
		"another body":        {sign: func(r *nodeapi.Request) { r.Body = []byte("{}") }, words: "isn't one of"},
		"another node":        {sign: func(r *nodeapi.Request) { r.Node = other.ID() }, words: "isn't one of"},
		"another connection":  {sign: func(r *nodeapi.Request) { r.Binding = make([]byte, 32) }, words: "isn't one of"},
		"no connection":       {sign: func(r *nodeapi.Request) { r.Binding = nil }, words: "isn't one of"},
		"too old":             {sign: func(r *nodeapi.Request) { r.Time = time.Now().Add(-6 * time.Minute) }, words: "must be within 5 minutes"},
		"of the future":       {sign: func(r *nodeapi.Request) { r.Time = time.Now().Add(6 * time.Minute) }, words: "must be within 5 minutes"},
		"another user":        {send: func(r *http.Request) { r.Header.Set(explorer.HeaderUser, other.ID()) }, words: "isn't one of"},
		"a weak key":          {send: func(r *http.Request) { r.Header.Set(explorer.HeaderUser, strings.Repeat("1", 32)) }, words: "weak key"},
		"two users":           {send: func(r *http.Request) { r.Header.Add(explorer.HeaderUser, other.ID()) }, words: "is there 2 times"},
		"another time":        {send: func(r *http.Request) { r.Header.Set(explorer.HeaderTimestamp, "5") }, words: "isn't one of"},
		"no time":             {send: func(r *http.Request) { r.Header.Set(explorer.HeaderTimestamp, "now") }, words: "nanoseconds"},
		"another nonce":       {send: func(r *http.Request) { r.Header.Set(nodeapi.HeaderNonce, "AAAAAAAAAAAAAAAAAAAAAA==") }, words: "isn't one of"},
		"a short nonce":       {send: func(r *http.Request) { r.Header.Set(nodeapi.HeaderNonce, "AAAA") }, words: "base64 of 16 bytes"},
		"loose bits of nonce": {send: func(r *http.Request) { r.Header.Set(nodeapi.HeaderNonce, "AAAAAAAAAAAAAAAAAAAAAB==") }, words: "base64 of 16 bytes"},
		"half a signature":    {send: func(r *http.Request) { r.Header.Set(explorer.HeaderSignature, "AAAA") }, words: "64"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.raw()
			in := w.good(conn)
			if c.sign != nil {
				c.sign(&in)
			}
			r := w.request(in, "GET", target, nil)
			if c.send != nil {
				c.send(r)
			}
			status, detail := conn.answer(t, r)
			want := http.StatusUnauthorized
			if c.words == "" {
				want = http.StatusOK
			}
			if status != want || !strings.Contains(detail, c.words) {
				t.Errorf("status %d, %q", status, detail)
			}
		})
	}
}

// A request counts once: a replay fails on the same connection and on any other.
func TestAReplayedRequestIsRefused(t *testing.T) {
	w := newWorld(t)
	first, second := w.raw(), w.raw()
	in := w.good(first)
	r := w.request(in, "GET", in.Target, nil)
	if status, detail := first.answer(t, r); status != http.StatusOK {
		t.Fatalf("the first time: %d, %s", status, detail)
	}
	if status, detail := second.answer(t, r); status != http.StatusUnauthorized || !strings.Contains(detail, "on this connection") {
		t.Errorf("on another connection: %d, %s", status, detail)
	}
	if status, detail := first.answer(t, r); status != http.StatusUnauthorized || !strings.Contains(detail, "it came before") {
		t.Errorf("on the same connection: %d, %s", status, detail)
	}
}

// While the node's clock isn't trusted, no request is refused for its time.
func TestTheTimeCountsOnlyWhereItIsTrusted(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) { c.Now = func() (time.Time, bool) { return time.Unix(5, 0), false } })
	if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
		t.Error(err)
	}
}

// A user with a wrong clock is told the node's time, and uses that.
func TestAUsersClockMayBeWrong(t *testing.T) {
	w := newWorld(t)
	d := w.dialer()
	d.Now = func() time.Time { return time.Now().Add(-40 * time.Hour) }
	if _, err := w.dial(d).Status(t.Context(), "7-1"); err != nil {
		t.Error(err)
	}
}

// A man in the middle with a key of their own is detected, also when they forward the user's challenge
// to the node.
func TestAManInTheMiddleIsRefused(t *testing.T) {
	w := newWorld(t)
	mallory := must[sign.KeyPair](t)(sign.Generate())
	for name, by := range map[string]struct {
		id   string
		sign nodeapi.Signer
	}{
		"another node":  {mallory.ID(), func(_ context.Context, m []byte) ([]byte, error) { return mallory.Sign(m), nil }},
		"the wrong key": {w.node.ID(), func(_ context.Context, m []byte) ([]byte, error) { return mallory.Sign(m), nil }},
		"no proof":      {w.node.ID(), func(context.Context, []byte) ([]byte, error) { return []byte{}, nil }},
		"another challenge": {w.node.ID(), func(context.Context, []byte) ([]byte, error) {
			return w.node.Sign(nodeapi.ProofBytes(w.node.ID(), make([]byte, 16), mallory.Public())), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := must[*userapi.Door](t)(userapi.Listen(t.Context(), userapi.Config{
				NodeID: by.id, Listen: "127.0.0.1:0", Sign: by.sign, Workloads: w.records, Now: func() (time.Time, bool) { return time.Now(), true },
			}))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- fake.Run(ctx) }()
			defer func() { cancel(); <-done }()
			d := w.dialer()
			d.Address = fake.Address()
			if _, err := d.Dial(t.Context()); !refusedBy(err, node.Refused, "another peer answers") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOneUserCannotTakeAllStreams(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) { c.Limits.Streams = limit.Limit{Name: "streams", Per: "user", Each: 1} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := w.dial(w.dialer()).Exec(ctx, "7-1", nodeapi.ExecOptions{Args: []string{"hang"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
		done <- err
	}()
	w.settle("it doesn't begin", func() bool { return w.streams.running() == 1 })
	err := w.dial(w.dialer()).Logs(t.Context(), "7-1", nodeapi.LogOptions{Tail: 1}, func(nodeapi.LogLine) error { return nil })
	if !refusedBy(err, node.Busy, "a user has at most 1") {
		t.Errorf("a second stream: %v", err)
	}
	if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
		t.Errorf("what isn't a stream: %v", err)
	}
	cancel()
	<-done
}

// A client that sends slowly, or too much, is cut off; others are served meanwhile.
func TestSlowAndHugeRequestsAreCutOff(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) {
		c.Limits.Header, c.Limits.Body, c.Limits.Idle = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	})
	gone := func(name string, c net.Conn) {
		t.Helper()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("%s: it is kept", name)
		}
	}
	var slow sync.WaitGroup
	silent := must[net.Conn](t)(net.Dial("tcp", w.door.Address()))
	defer silent.Close()
	slow.Go(func() { gone("no handshake", silent) })
	half := w.raw()
	_, _ = half.Write([]byte("GET /v1/version HTTP/1.1\r\nHost: x\r\n"))
	slow.Go(func() { gone("half a head", half) })
	body := w.raw()
	_, _ = body.Write([]byte("POST /v1/deletions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"))
	slow.Go(func() { gone("half a body", body) })
	idle := w.raw()
	slow.Go(func() { gone("nothing", idle) })
	head := w.raw()
	go func() {
		_, _ = head.Write([]byte("GET /v1/version HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 1<<20)))
	}()
	slow.Go(func() { gone("a huge head", head) })
	// On a busy machine an honest user may be slower than these short times, too.
	w.settle("somebody else is served", func() bool {
		c, err := w.dialer().Dial(t.Context())
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Status(t.Context(), "7-1")
		return err == nil
	})
	slow.Wait()
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// The command of a silent user is ended.
func TestACommandOfASilentUserEnds(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) {
		c.Pulse = nodeapi.Pulse{Beat: 50 * time.Millisecond, Silence: 500 * time.Millisecond}
	})
	conn := w.raw()
	in := w.good(conn)
	in.Method, in.Target, in.Body = "POST", "/v1/workloads/7-1/exec", []byte(`{"args":["hang"]}`)
	r := w.request(in, in.Method, in.Target, in.Body)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", nodeapi.Upgrade)
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	// From here on its connection is open, and carries nothing.
	w.settle("it doesn't begin", func() bool { return w.streams.started() })
	w.settle("it runs on", func() bool { return w.streams.running() == 0 })
}
