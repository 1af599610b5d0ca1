package dial

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// The limits of HTTP when HTTPConfig has none.
const (
	DefaultHTTPTimeout   = 10 * time.Minute
	DefaultHeaderTimeout = 30 * time.Second
	DefaultMaxRedirects  = 5
	// DefaultMaxHeaderBytes is for the headers of one response.
	DefaultMaxHeaderBytes = 64 << 10
)

// HTTPConfig are the limits of a client. The body's size is the caller's to limit.
type HTTPConfig struct {
	// Timeout is for a whole exchange with its redirects and body; 0 is
	// DefaultHTTPTimeout.
	Timeout time.Duration
	// HeaderTimeout is the time until a server's headers; 0 is DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// MaxRedirects are followed at most; 0 is DefaultMaxRedirects, less is none.
	MaxRedirects int
	// MaxHeaderBytes is for the headers of one response; 0 is DefaultMaxHeaderBytes.
	MaxHeaderBytes int64
	// TLS is for servers with a private authority; nil trusts this machine's.
	TLS *tls.Config
}

// Validate names the field that is wrong. node.Invalid.
func (c HTTPConfig) Validate() error {
	switch {
	case c.Timeout < 0:
		return node.Errorf(node.Invalid, "cannot make an HTTP client: Timeout %s is negative", c.Timeout)
	case c.HeaderTimeout < 0:
		return node.Errorf(node.Invalid, "cannot make an HTTP client: HeaderTimeout %s is negative", c.HeaderTimeout)
	case c.MaxHeaderBytes < 0:
		return node.Errorf(node.Invalid, "cannot make an HTTP client: MaxHeaderBytes %d is negative", c.MaxHeaderBytes)
	}
	return nil
}

func (c HTTPConfig) withDefaults() HTTPConfig {
	if c.Timeout == 0 {
		c.Timeout = DefaultHTTPTimeout
	}
	if c.HeaderTimeout == 0 {
		c.HeaderTimeout = DefaultHeaderTimeout
	}
	if c.MaxRedirects == 0 {
		c.MaxRedirects = DefaultMaxRedirects
	}
	if c.MaxHeaderBytes == 0 {
		c.MaxHeaderBytes = DefaultMaxHeaderBytes
	}
	return c
}

// HTTPTransport connects through the dialer only, never through a proxy: a
// proxy would resolve names again, unchecked. Its users close its idle
// connections. An idle connection was judged when it was made.
func (d *Dialer) HTTPTransport(c HTTPConfig) (*http.Transport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	t := &http.Transport{
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  c.HeaderTimeout,
		MaxResponseHeaderBytes: c.MaxHeaderBytes,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    4,
		ForceAttemptHTTP2:      true,
	}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	return t, nil
}

// HTTPClient follows redirects on its own transport: each leads to a destination
// that a tenant might have named, is http or https, never from https to http, and
// takes no credentials, own headers or body along to another origin. A failed dial
// keeps its kind, a refused redirect is node.Refused; failures of HTTP itself
// have no kind.
func (d *Dialer) HTTPClient(c HTTPConfig) (*http.Client, error) {
	transport, err := d.HTTPTransport(c)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return &http.Client{
		Transport: transport,
		Timeout:   c.Timeout,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			return checkRedirect(next, via, max(c.MaxRedirects, 0))
		},
	}, nil
}

func checkRedirect(next *http.Request, via []*http.Request, most int) error {
	no := func(why string) error {
		return node.Errorf(node.Refused, "cannot follow a redirect to %s: %s", shown(next.URL.Redacted()), why)
	}
	if len(via) > most {
		return no("there were too many")
	}
	switch next.URL.Scheme {
	case "https":
	case "http":
		if via[len(via)-1].URL.Scheme == "https" {
			return no("it leads from https to http")
		}
	default:
		return no("allowed are http and https")
	}
	if !leftOrigin(next, via) {
		return nil
	}
	if next.URL.User != nil {
		return no("it names a user")
	}
	if next.Body != nil && next.Body != http.NoBody {
		return no("the request's body is for " + shown(via[0].URL.Host) + " only")
	}
	next.Header, next.Host = portable(next.Header), ""
	return nil
}

// leftOrigin reports whether a chain of requests has left its first origin. A
// return doesn't count as home: another origin chose the request made there.
func leftOrigin(next *http.Request, via []*http.Request) bool {
	home := origin(via[0].URL)
	for _, r := range append(via[1:len(via):len(via)], next) {
		if origin(r.URL) != home {
			return true
		}
	}
	return false
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// portable are the headers that describe the answer, not the requester. Tokens have
// many header names, so unknown headers aren't sent along.
func portable(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{"Accept", "Accept-Language", "Range", "User-Agent", "If-Match", "If-None-Match", "If-Modified-Since", "If-Range"} {
		if values, ok := h[name]; ok {
			out[name] = values
		}
	}
	return out
}
