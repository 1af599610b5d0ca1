package fetch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

// settings allow a server at an address, without TLS if plain is set.
func settings(t *testing.T, host string, plain bool) fetch.Config {
	t.Helper()
	allowed, err := dial.ParseException(host)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dial.New(dial.Config{Own: func() []netip.Prefix { return nil }, Allow: []dial.Exception{allowed}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	c := fetch.Config{Dialer: d, Silence: time.Minute}
	if plain {
		c.PlainHTTP = []string{host}
	}
	return c
}

// get is the body at a URL, or an error with its kind.
func get(t *testing.T, c fetch.Config, url string) (string, error) {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(url)
	if err != nil {
		return "", fetch.Cause(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return string(raw), fetch.Cause(err)
}

// Servers are asked without TLS only where they are listed, also after a redirect, and only while they say something.
func TestClient(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://secret.invalid/token", http.StatusFound)
		case "/silent":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte("text"))
		}
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	if text, err := get(t, settings(t, host, true), s.URL); err != nil || text != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for what, c := range map[string]struct {
		plain      bool
		path, says string
		kind       node.Kind
	}{
		"not listed": {false, "/", "servers are asked over https only", node.Refused},
		"redirected": {true, "/redirect", "cannot ask secret.invalid: servers are asked over https only", node.Refused},
		"silent":     {true, "/silent", "it has said nothing for 1s", node.Transient},
	} {
		config := settings(t, host, c.plain)
		if c.path == "/silent" {
			config.Silence = time.Second
		}
		if _, err := get(t, config, s.URL+c.path); node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "token") {
			t.Errorf("%s: %v (%s), want %q", what, err, node.KindOf(err), c.says)
		}
	}
}

func TestCauses(t *testing.T) {
	broken := errors.New("broken pipe")
	for what, c := range map[string]struct {
		err  error
		kind node.Kind
		says string
	}{
		"none":       {nil, "", ""},
		"a kind":     {&url.Error{Op: "Get", URL: "http://a/secret", Err: node.Errorf(node.Refused, "no")}, node.Refused, "no"},
		"a deadline": {&url.Error{Op: "Get", URL: "http://a/secret", Err: context.DeadlineExceeded}, node.Transient, "it took too long"},
		"a request":  {&url.Error{Op: "Get", URL: "http://a/secret", Err: broken}, node.Transient, "broken pipe"},
		"another":    {broken, node.Transient, "the connection broke"},
	} {
		got := fetch.Cause(c.err)
		if node.KindOf(got) != c.kind || got != nil && got.Error() != c.says {
			t.Errorf("%s: %v (%s), want %q (%s)", what, got, node.KindOf(got), c.says, c.kind)
		}
	}
	for code, want := range map[int]node.Kind{404: node.Invalid, 408: node.Transient, 429: node.Transient, 500: node.Transient, 503: node.Transient, 401: node.Refused, 403: node.Refused, 204: node.Refused} {
		if got := fetch.StatusKind(code); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []fetch.Config{{}, {Dialer: &dial.Dialer{}, Silence: -1}} {
		if err := c.Validate(); node.KindOf(err) != node.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// idle counts the calls of CloseIdleConnections.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

// A client's idle connections are those below its guard.
func TestIdleConnections(t *testing.T) {
	var next idle
	(&http.Client{Transport: fetch.Guard{Next: &next}}).CloseIdleConnections()
	if next.closed != 1 {
		t.Errorf("idle connections are closed %d times", next.closed)
	}
}
