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

// answer is the http.ResponseWriter of one request's handler.
type answer struct {
	caller *caller
	header http.Header

	mu  sync.Mutex
	out *bufio.Writer
	// begun is whether the response head was sent.
	begun bool
	err   error
	// gone is closed when the caller's connection ends.
	gone <-chan struct{}
	// taken is whether the handler has hijacked the connection; parked is closed once the reading
	// goroutine has stopped.
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

// finish completes the response; the next request may follow.
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

// frame writes a frame. Here and below, mu is held.
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

// send sends a frame that isn't part of the response, at once.
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

// FlushError implements the method that http.ResponseController looks for.
func (a *answer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head(http.StatusOK)
	a.frame(wire.Flush, nil)
	a.flush()
	return a.err
}

// SetWriteDeadline implements the method that http.ResponseController looks for.
func (a *answer) SetWriteDeadline(by time.Time) error { return a.caller.conn.SetWriteDeadline(by) }

// Hijack implements http.Hijacker: from now on the connection carries raw bytes in both directions.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun || a.taken.Swap(true) {
		return nil, nil, errors.New("cannot take the connection over: it is in use")
	}
	conn := a.caller.conn
	// The past deadline wakes the reading goroutine, which then stops.
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

// parkReader is called by the goroutine that reads the link, after a read error. It returns true when
// the cause is that the handler has hijacked the connection.
func (a *answer) parkReader() bool {
	if !a.taken.Load() {
		return false
	}
	close(a.parked)
	return true
}
