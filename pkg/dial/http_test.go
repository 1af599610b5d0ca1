package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// site is an HTTP server on loopback: /to?u= redirects to u, /loop to itself,
// /ok answers; it records the requests to /ok.
type site struct {
	*httptest.Server
	mu  sync.Mutex
	got []*http.Request
}

func newSite(t *testing.T, secure bool) *site {
	t.Helper()
	s := &site{}
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("u"))
		w.WriteHeader(map[string]int{"": http.StatusFound, "307": http.StatusTemporaryRedirect}[r.URL.Query().Get("s")])
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		if n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/count?n=%d", n-1), http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "there")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 100<<10)) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.got = append(s.got, r)
		s.mu.Unlock()
		_, _ = io.WriteString(w, "ok")
	})
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *site) hostport() string { return s.Listener.Addr().String() }

func (s *site) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) == 0 {
		return nil
	}
	return s.got[len(s.got)-1]
}

func newClient(t *testing.T, c HTTPConfig, d *Dialer) *http.Client {
	t.Helper()
	client, err := d.HTTPClient(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// send sends a request with everything that should stay at its origin, and reads the answer.
func send(t *testing.T, client *http.Client, method, address, body string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body, req.GetBody = nil, nil
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Auth-Token"} {
		req.Header.Set(name, "secret")
	}
	req.Header.Set("Accept", "text/x")
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

func to(from *site, where string) string { return from.URL + "/to?u=" + url.QueryEscape(where) }

// wantHTTPError checks the error that net/http wraps.
func wantHTTPError(t *testing.T, err error, kind node.Kind, says string) {
	t.Helper()
	var inner *node.Error
	if !errors.As(err, &inner) {
		t.Fatalf("want %s, got an error without kind: %v", kind, err)
	}
	wantError(t, inner, kind, says)
}

func TestRedirectsAreJudged(t *testing.T) {
	home, inside := newSite(t, false), newSite(t, false)
	_, insidePort, _ := net.SplitHostPort(inside.hostport())
	dns := newNameServer(t, map[string][]string{"in.example A": {"127.0.0.1"}})
	client := newClient(t, HTTPConfig{}, newDialer(t, Config{Resolver: dns.resolver()}, home.hostport()))
	for _, c := range []struct {
		where string
		kind  node.Kind
		says  string
	}{
		{inside.URL + "/ok", node.Refused, "loopback (127.0.0.0/8)"},
		{"//" + inside.hostport() + "/ok", node.Refused, "loopback (127.0.0.0/8)"},
		{"http://in.example:" + insidePort + "/ok", node.Refused, "in.example resolves to 127.0.0.1"},
		{"http://[::ffff:127.0.0.1]:" + insidePort + "/ok", node.Refused, "loopback (127.0.0.0/8)"},
		{"http://0.0.0.0:" + insidePort + "/ok", node.Refused, "unspecified"},
		{"http://127。0。0。1:" + insidePort + "/ok", node.Refused, "loopback (127.0.0.0/8)"},
		{"http://169.254.169.254/latest/meta-data/", node.Refused, "link-local"},
		{"http://2130706433:" + insidePort + "/ok", node.Invalid, "ends in a number"},
		{"http://0177.0.0.1:" + insidePort + "/ok", node.Invalid, "ends in a number"},
		{"http://0x7f.1:" + insidePort + "/ok", node.Invalid, "ends in a number"},
		{"http://[fe80::1%25lo]:" + insidePort + "/ok", node.Invalid, "zone"},
		{"http://user:pw@" + inside.hostport() + "/ok", node.Refused, "names a user"},
		{"file:///etc/passwd", node.Refused, "allowed are http and https"},
		{"ftp://8.8.8.8/", node.Refused, "allowed are http and https"},
		{"gopher://" + inside.hostport() + "/", node.Refused, "allowed are http and https"},
		{"javascript:alert(1)", node.Refused, "allowed are http and https"},
	} {
		_, err := send(t, client, http.MethodGet, to(home, c.where), "")
		wantHTTPError(t, err, c.kind, c.says)
		var failed *url.Error
		if !errors.As(err, &failed) || strings.Contains(failed.Err.Error(), "pw") {
			t.Errorf("tells a password: %v", err)
		}
	}
	if inside.last() != nil {
		t.Error("somebody came in")
	}
	_, err := send(t, client, http.MethodGet, inside.URL+"/ok", "")
	wantHTTPError(t, err, node.Refused, "loopback")
	if _, err := send(t, client, http.MethodGet, to(home, "/ok"), ""); err != nil || home.last() == nil {
		t.Errorf("a redirect at home: %v", err)
	}
	if _, err := send(t, client, http.MethodGet, "ftp://"+home.hostport()+"/", ""); err == nil {
		t.Error("ftp")
	}
}

func TestRedirectsEnd(t *testing.T) {
	home := newSite(t, false)
	d := newDialer(t, Config{}, home.hostport())
	for _, c := range []struct{ max, n int }{{0, DefaultMaxRedirects}, {2, 2}, {-1, 0}} {
		client := newClient(t, HTTPConfig{MaxRedirects: c.max}, d)
		if _, err := send(t, client, http.MethodGet, fmt.Sprintf("%s/count?n=%d", home.URL, c.n), ""); err != nil {
			t.Errorf("%d redirects: %v", c.n, err)
		}
		_, err := send(t, client, http.MethodGet, fmt.Sprintf("%s/count?n=%d", home.URL, c.n+1), "")
		wantHTTPError(t, err, node.Refused, "too many")
		_, err = send(t, client, http.MethodGet, home.URL+"/loop", "")
		wantHTTPError(t, err, node.Refused, "too many")
	}
}

// TestNothingGoesAlong: data for one origin stays there, also when only the
// port differs, when the next is a subdomain, and on the way back.
func TestNothingGoesAlong(t *testing.T) {
	home, other := newSite(t, false), newSite(t, false)
	client := newClient(t, HTTPConfig{}, newDialer(t, Config{}, home.hostport(), other.hostport()))
	secrets := func(r *http.Request) string {
		return r.Header.Get("Authorization") + r.Header.Get("Cookie") + r.Header.Get("X-Auth-Token") + r.Header.Get("Referer")
	}
	if _, err := send(t, client, http.MethodGet, home.URL+"/ok", ""); err != nil || secrets(home.last()) != "secretsecretsecret" {
		t.Fatalf("the first request: %v, %v", home.last(), err)
	}
	if _, err := send(t, client, http.MethodGet, to(home, "/ok"), ""); err != nil || !strings.HasPrefix(secrets(home.last()), "secretsecretsecret") {
		t.Errorf("a redirect at home: %v, %v", home.last(), err)
	}
	for where, at := range map[string]*site{other.URL + "/ok": other, to(other, home.URL+"/ok"): home} {
		if _, err := send(t, client, http.MethodGet, to(home, where), ""); err != nil {
			t.Fatal(err)
		}
		if got := at.last(); secrets(got) != "" || got.Header.Get("Accept") != "text/x" {
			t.Errorf("%s got %v", where, got.Header)
		}
	}
	if _, err := send(t, client, http.MethodGet, strings.Replace(to(home, other.URL+"/ok"), "http://", "http://user:pw@", 1), ""); err != nil || secrets(other.last()) != "" {
		t.Errorf("a user in the first address: %v, %v", other.last(), err)
	}
	seen := len(other.got)
	_, err := send(t, client, http.MethodPost, to(home, other.URL+"/ok")+"&s=307", "body")
	wantHTTPError(t, err, node.Refused, "the request's body")
	if len(other.got) != seen {
		t.Error("the body went along")
	}
	if _, err := send(t, client, http.MethodPost, to(home, "/ok")+"&s=307", "body"); err != nil || home.last().ContentLength != 4 {
		t.Errorf("a body at home: %v", err)
	}
}

// TestAHostHeaderStaysHome: net/http takes it along to "//other/path".
func TestAHostHeaderStaysHome(t *testing.T) {
	home, other := newSite(t, false), newSite(t, false)
	client := newClient(t, HTTPConfig{}, newDialer(t, Config{}, home.hostport(), other.hostport()))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to(home, "//"+other.hostport()+"/ok"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "tenant.example"
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := other.last().Host; got != other.hostport() {
		t.Errorf("asked for host %s", got)
	}
}

func TestHTTPS(t *testing.T) {
	secure, plain := newSite(t, true), newSite(t, false)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	d := newDialer(t, Config{}, secure.hostport(), plain.hostport())
	client := newClient(t, HTTPConfig{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, d)
	_, err := send(t, client, http.MethodGet, to(secure, plain.URL+"/ok"), "")
	wantHTTPError(t, err, node.Refused, "from https to http")
	if plain.last() != nil {
		t.Error("somebody came in plain")
	}
	if _, err := send(t, client, http.MethodGet, to(plain, secure.URL+"/ok"), ""); err != nil {
		t.Fatal(err)
	}
	if got := secure.last(); got.ProtoMajor != 2 || got.Header.Get("Authorization") != "" {
		t.Errorf("upgraded: %s, %v", got.Proto, got.Header)
	}
	if _, err := send(t, newClient(t, HTTPConfig{}, d), http.MethodGet, secure.URL+"/ok", ""); err == nil {
		t.Error("an unknown authority was believed")
	}
}

func TestNoProxy(t *testing.T) {
	home, proxy := newSite(t, false), newDoor(t, "127.0.0.1:0")
	t.Setenv("HTTP_PROXY", "http://"+proxy.Addr().String())
	t.Setenv("http_proxy", "http://"+proxy.Addr().String())
	client := newClient(t, HTTPConfig{}, newDialer(t, Config{}, home.hostport()))
	_, err := send(t, client, http.MethodGet, "http://169.254.169.254/", "")
	wantHTTPError(t, err, node.Refused, "link-local")
	transport, err := newDialer(t, Config{}).HTTPTransport(HTTPConfig{})
	if err != nil || transport.Proxy != nil || transport.DialContext == nil {
		t.Errorf("%+v, %v", transport, err)
	}
	if proxy.came.Load() != 0 {
		t.Error("somebody came to the proxy")
	}
}

func TestHTTPLimits(t *testing.T) {
	home := newSite(t, false)
	d := newDialer(t, Config{}, home.hostport())
	if _, err := send(t, newClient(t, HTTPConfig{}, d), http.MethodGet, home.URL+"/big", ""); err == nil {
		t.Error("100 KiB of headers were read")
	}
	if _, err := send(t, newClient(t, HTTPConfig{MaxHeaderBytes: 200 << 10}, d), http.MethodGet, home.URL+"/big", ""); err != nil {
		t.Error(err)
	}
	for _, c := range []HTTPConfig{{HeaderTimeout: 50 * time.Millisecond}, {Timeout: 50 * time.Millisecond}} {
		start := time.Now()
		_, err := send(t, newClient(t, c, d), http.MethodGet, home.URL+"/silent", "")
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) > 3*time.Second {
			t.Errorf("%+v: after %s: %v", c, time.Since(start), err)
		}
	}
	for says, c := range map[string]HTTPConfig{"HeaderTimeout -1ns": {HeaderTimeout: -1}, "HTTP client: Timeout -1ns": {Timeout: -1}, "MaxHeaderBytes -1": {MaxHeaderBytes: -1}} {
		_, err := d.HTTPClient(c)
		wantError(t, err, node.Invalid, says)
		_, err = d.HTTPTransport(c)
		wantError(t, err, node.Invalid, says)
	}
}
