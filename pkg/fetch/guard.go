package fetch

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Guard lets requests through to servers: over TLS, but for those that the
// operator lists, and only while the other side sends something.
type Guard struct {
	Next http.RoundTripper
	// Plain are the HOST or HOST:PORT that are asked without TLS.
	Plain map[string]bool
	// Silence is how long the other side may send nothing.
	Silence time.Duration
	// Most is how many bytes a body may have; 0 is any number.
	Most int64
}

var _ http.RoundTripper = Guard{}

// CloseIdleConnections closes those of Next, for http.Client.CloseIdleConnections.
func (g Guard) CloseIdleConnections() {
	if next, ok := g.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (g Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.Plain[req.URL.Host] {
		return nil, node.Errorf(node.Refused, "cannot ask %s: servers are asked over https only, unless the operator allows plain HTTP", req.URL.Host)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	silent := node.Errorf(node.Transient, "cannot read from %s: it has said nothing for %s", req.URL.Host, g.Silence)
	b := &watched{ctx: ctx, silence: g.Silence, cancel: cancel, most: g.Most}
	b.timer = time.AfterFunc(g.Silence, func() { cancel(silent) })
	asked := req.Clone(ctx)
	// The HTTP client would unpack a packed body without a bound.
	asked.Header.Set("Accept-Encoding", "identity")
	res, err := g.Next.RoundTrip(asked)
	b.timer.Stop()
	if err != nil {
		err = b.cause(err)
		cancel(nil)
		return nil, err
	}
	res.Header.Del("Content-Encoding")
	b.body = res.Body
	res.Body = b
	return res, nil
}

// watched is a body that ends when nothing of it comes for too long. The time
// that its reader takes doesn't count.
type watched struct {
	ctx     context.Context // it is the request's
	body    io.ReadCloser
	timer   *time.Timer
	silence time.Duration
	cancel  context.CancelCauseFunc
	most    int64
	read    int64
	once    sync.Once
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.silence)
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.read += int64(n)
	if w.most > 0 && w.read > w.most {
		return 0, node.Errorf(node.Refused, "cannot read an answer: it is longer than %d bytes", w.most)
	}
	return n, w.cause(err)
}

// cause is the reason for the end of a request: ours when we ended it. A broken
// connection's error stays as it is, so that it is retried.
func (w *watched) cause(err error) error {
	if err == nil || errors.Is(err, io.EOF) || w.ctx.Err() == nil {
		return err
	}
	return context.Cause(w.ctx)
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.body.Close()
	w.once.Do(func() { w.cancel(nil) })
	return err
}
