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
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// DefaultTimeout is how long one call may take, beside a long poll's wait.
const DefaultTimeout = 30 * time.Second

// How much of an answer is read, in bytes: more is garbage.
const (
	maxAnswer = 4 << 20
	maxPage   = 64 << 20
)

// Signer signs writes in a role. Sign may be a call to another process.
type Signer struct {
	Role Role
	// ID is the base58 of the key's public half.
	ID   string
	Sign func(message []byte) ([]byte, error)
}

// KeySigner signs with a key at hand.
func KeySigner(role Role, key sign.KeyPair) *Signer {
	return &Signer{Role: role, ID: key.ID(), Sign: func(m []byte) ([]byte, error) { return key.Sign(m), nil }}
}

// Config is what a client needs.
type Config struct {
	// URL of the explorer: http or https, a host, and perhaps a path.
	URL string
	// Signer is needed for registrations, heartbeats and farms only.
	Signer *Signer
	// Timeout of one call (0: DefaultTimeout), beside a long poll's wait.
	Timeout time.Duration
	// UserAgent is sent with each request.
	UserAgent string
	// Transport replaces the client's own, for tests and TLS settings.
	Transport http.RoundTripper
	// Now is the clock (nil: time.Now).
	Now func() time.Time
}

// Validate checks the configuration.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return node.Errorf(node.Invalid, "cannot use explorer %q: it must be http://HOST[:PORT] or https://HOST[:PORT]", c.URL)
	}
	if c.Timeout < 0 {
		return node.Errorf(node.Invalid, "cannot use timeout %s: it must not be negative", c.Timeout)
	}
	if c.Signer != nil && (c.Signer.ID == "" || c.Signer.Sign == nil || (c.Signer.Role != RoleNode && c.Signer.Role != RoleUser)) {
		return node.Errorf(node.Invalid, "cannot use signer: it needs a role, an ID and a Sign function")
	}
	return nil
}

// Client talks to one explorer. Its methods carry a node.Kind in their errors:
// Transient for the network, 5xx and answers that aren't any; Busy when the
// explorer asks to slow down; Invalid, Refused, NotExist and Exist are its
// final word. It is safe for many goroutines.
type Client struct {
	base      string
	signer    *Signer
	timeout   time.Duration
	userAgent string
	http      *http.Client
	now       func() time.Time

	// mu makes signed writes go one after the other: the explorer accepts
	// only growing times of a key.
	mu     sync.Mutex
	offset time.Duration
	last   int64
}

// NewClient makes a client; it doesn't connect.
func NewClient(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.UserAgent == "" {
		c.UserAgent = "croft"
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	return &Client{
		base: strings.TrimRight(c.URL, "/"), signer: c.Signer, timeout: c.Timeout, userAgent: c.UserAgent, now: c.Now,
		http: &http.Client{
			Transport: c.Transport,
			// An explorer has one address. Whatever sends elsewhere isn't it.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
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

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request; what says in an error what it was for.
type call struct {
	what   string
	method string
	path   string
	query  url.Values
	body   []byte
	signed bool
	wait   time.Duration
	limit  int64
	// upgrade is what the connection is to become, where it is.
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

// do sends the request and returns its answer, or a kinded error.
func (c *Client) do(ctx context.Context, k call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	if !k.signed {
		return c.send(ctx, k, nil)
	}
	return c.sendSigned(ctx, k)
}

func (c *Client) send(ctx context.Context, k call, headers http.Header) (answer, error) {
	r, err := c.request(ctx, k)
	if err != nil {
		return answer{}, err
	}
	for name, values := range headers {
		r.Header[name] = values
	}
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

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
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

// maxRetimes is how often a write is signed anew: once for the clock, once for
// what the key wrote before.
const maxRetimes = 2

// sendSigned signs the request. When the explorer refuses its time, it is
// signed once more with the explorer's: a node whose clock starts in 1970 must
// be able to register. That is safe, since this time serves nothing but the
// explorer's own guard against replays, and the host is signed too.
func (c *Client) sendSigned(ctx context.Context, k call) (answer, error) {
	if c.signer == nil {
		return answer{}, node.Errorf(node.Invalid, "cannot %s: the client has no key to sign with", k.what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.signAndSend(ctx, k)
	for range maxRetimes {
		var refused *AnswerError
		if !errors.As(err, &refused) || refused.Problem.Time == nil {
			break
		}
		c.offset = refused.Problem.Time.Sub(c.now())
		c.last = 0
		a, err = c.signAndSend(ctx, k)
	}
	return a, err
}

func (c *Client) signAndSend(ctx context.Context, k call) (answer, error) {
	r, err := c.request(ctx, k)
	if err != nil {
		return answer{}, err
	}
	at := c.now().Add(c.offset).UnixNano()
	if at <= c.last {
		at = c.last + 1
	}
	c.last = at
	w := Write{Role: c.signer.Role, Key: c.signer.ID, Method: k.method, Host: r.URL.Host, Path: r.URL.EscapedPath(), Body: k.body, Time: time.Unix(0, at)}
	signature, err := c.signer.Sign(w.SigningBytes())
	if err != nil {
		return answer{}, errors.Wrapf(err, "cannot sign to %s", k.what)
	}
	headers := http.Header{}
	w.SetHeaders(headers, signature)
	return c.send(ctx, k, headers)
}

// get reads a JSON answer into out.
func (c *Client) get(ctx context.Context, k call, out any) (http.Header, error) {
	k.method = http.MethodGet
	a, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	return a.header, decode(k.what, a.body, out)
}

// write sends in as JSON; the answer's body is of no interest.
func (c *Client) write(ctx context.Context, k call, in any) (answer, error) {
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

func limited(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
