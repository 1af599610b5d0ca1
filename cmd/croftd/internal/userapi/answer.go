package userapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
)

// answer is the answer to one request: the http.ResponseWriter that its handler has.
type answer struct {
	caller *caller
	header http.Header

	mu  sync.Mutex
	out *bufio.Writer
	// begun is whether the head was sent.
	begun bool
	err   error
	// gone is closed when the caller is.
	gone <-chan struct{}
	// taken is whether the handler has asked for the connection, parked is closed once nobody
	// else reads it any more.
	taken  atomic.Bool
	parked chan struct{}
}

func newAnswer(ctx context.Context, c *caller) *answer {
	return &answer{caller: c, header: http.Header{}, out: bufio.NewWriter(c.conn), gone: ctx.Done(), parked: make(chan struct{})}
}

// serve answers a request.
func (a *answer) serve(r *http.Request) {
	defer a.finish()
	a.caller.door.handler.ServeHTTP(a, r)
}

// finish says that the answer is whole; another request may come then.
func (a *answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken.Load() {
		return
	}
	a.head(http.StatusOK)
	a.caller.begin(nil)
	a.frame(wire.End, nil)
	a.flush()
	if a.err != nil {
		_ = a.caller.conn.Close()
	}
}

// frame sends one; the lock is held, here and below.
func (a *answer) frame(kind wire.Kind, payload []byte) {
	if a.err == nil {
		a.err = wire.WriteFrame(a.out, kind, payload)
	}
}

func (a *answer) flush() {
	if a.err == nil {
		a.err = a.out.Flush()
	}
}

func (a *answer) head(status int) {
	if a.begun {
		return
	}
	a.begun = true
	raw, err := json.Marshal(wire.Answer{Status: status, Header: a.header})
	if err != nil {
		a.err = err
		return
	}
	a.frame(wire.Head, raw)
}

// send sends a frame that isn't of the answer, at once.
func (a *answer) send(kind wire.Kind, payload []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frame(kind, payload)
	a.flush()
	return a.err
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head(http.StatusOK)
	for rest := b; len(rest) > 0 && a.err == nil; {
		n := min(len(rest), wire.MaxPart)
		a.frame(wire.Body, rest[:n])
		rest = rest[n:]
	}
	if a.err != nil {
		return 0, a.err
	}
	return len(b), nil
}

// FlushError implements what http.ResponseController looks for.
func (a *answer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head(http.StatusOK)
	a.frame(wire.Flush, nil)
	a.flush()
	return a.err
}

// SetWriteDeadline implements what http.ResponseController looks for.
func (a *answer) SetWriteDeadline(by time.Time) error { return a.caller.conn.SetWriteDeadline(by) }

// Hijack implements http.Hijacker: the connection carries bytes both ways from now on.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun || a.taken.Swap(true) {
		return nil, nil, errors.New("cannot take the connection over: it is in use")
	}
	conn := a.caller.conn
	// Who reads is woken up by it, and reads no more.
	if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return nil, nil, err
	}
	select {
	case <-a.parked:
	case <-a.gone:
		return nil, nil, net.ErrClosed
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	a.frame(wire.Upgrade, nil)
	a.flush()
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), a.err
}

// parkReader is called by who reads the link when it can't: true when it is because the
// handler has asked for the connection.
func (a *answer) parkReader() bool {
	if !a.taken.Load() {
		return false
	}
	close(a.parked)
	return true
}
