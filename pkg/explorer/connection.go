package explorer

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// The largest answers, in bytes: longer ones are malformed.
const (
	maxAnswer = 4 << 20
	maxPage   = 64 << 20
)

// call is one request; its member what names its purpose in errors.
type call struct {
	what   string
	method string
	path   string
	query  url.Values
	body   []byte
	signed bool
	wait   time.Duration
	limit  int64
	// upgrade is the protocol to switch to, if any.
	upgrade string
}

// answer is a 2xx answer.
type answer struct {
	status int
	header http.Header
	body   []byte
	// stream is the connection after a switch of protocols.
	stream io.ReadWriteCloser
}

// connection carries calls to one explorer.
type connection struct {
	base      string
	timeout   time.Duration
	userAgent string
	http      *http.Client
	signing   *signing
}

func newConnection(c Config) *connection {
	return &connection{
		base: strings.TrimRight(c.URL, "/"), timeout: c.Timeout, userAgent: c.UserAgent,
		signing: &signing{signer: c.Signer, now: c.Now},
		http: &http.Client{
			Transport: c.Transport,
			// An explorer has one address; redirects aren't its own.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// do sends the request and returns its answer, or an error with a kind.
func (c *connection) do(ctx context.Context, k call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	if k.signed {
		return c.signing.send(ctx, k, c)
	}
	r, err := c.request(ctx, k)
	if err != nil {
		return answer{}, err
	}
	return c.send(r, k)
}

// send sends a request and reads its answer.
func (c *connection) send(r *http.Request, k call) (answer, error) {
	ctx := r.Context()
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, networkError(ctx, k.what, err)
	}
	if stream, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols && k.upgrade != "" {
		return answer{status: resp.StatusCode, header: resp.Header, stream: stream}, nil
	}
	defer resp.Body.Close()
	limit := k.limit
	if limit == 0 {
		limit = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return answer{}, networkError(ctx, k.what, err)
	}
	if int64(len(body)) > limit {
		return answer{}, garbage(k.what, "it is larger than allowed")
	}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return answer{}, garbage(k.what, "it redirects to "+limited(resp.Header.Get("Location"))+", which is not followed")
	}
	return answer{}, answerError(k.what, resp.StatusCode, resp.Header, body)
}

// request makes the unsigned request of a call.
func (c *connection) request(ctx context.Context, k call) (*http.Request, error) {
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, k.method, target, bytes.NewReader(k.body))
	if err != nil {
		return nil, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot %s", k.what))
	}
	r.Header.Set("User-Agent", c.userAgent)
	r.Header.Set("Accept", "application/json, application/problem+json")
	if len(k.body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", k.upgrade)
	}
	return r, nil
}

// acknowledged sends a call that the explorer, as the seed's, acknowledges with an empty 2xx
// answer. An answer with a body comes from elsewhere, such as a captive portal: trusting it would
// lose the result for good.
func (c *connection) acknowledged(ctx context.Context, k call) error {
	a, err := c.do(ctx, k)
	if err == nil && len(a.body) > 0 {
		return garbage(k.what, "it has a body, an acknowledgement has none")
	}
	return err
}

// get reads a JSON answer into out.
func (c *connection) get(ctx context.Context, k call, out any) (http.Header, error) {
	k.method = http.MethodGet
	a, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	return a.header, decode(k.what, a.body, out)
}

// write sends in as JSON.
func (c *connection) write(ctx context.Context, k call, in any) (answer, error) {
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return answer{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot %s", k.what))
		}
		k.body = body
	}
	return c.do(ctx, k)
}

func decode(what string, body []byte, out any) error {
	if err := json.Unmarshal(body, out); err != nil {
		return garbage(what, limited(err.Error()))
	}
	return nil
}

// limited shortens text of an answer for an error.
func limited(s string) string { return clip.Text(s, 200) }
