package imagetest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/pkg/errors"
)

// Faults is how a registry misbehaves. The zero value is a correct registry.
type Faults struct {
	// User and Password are required, by HTTP basic auth or, when Token is set, by a bearer token that
	// the registry issues for them.
	User, Password string
	Token          bool
	// Realm is where Token sends clients without a token; empty is the registry itself.
	Realm string
	// Silent accepts requests and never answers.
	Silent bool
	// Status answers every request with a status such as 503.
	Status int
	// HangAfter and CutAfter interrupt a blob's answer after that many bytes: by sending no more, or by
	// closing the connection. 0 is never. Times is how often, 0 always.
	HangAfter, CutAfter int64
	Times               int
	// Change changes the body of the answer for a path such as /v2/app/manifests/1: a registry that
	// lies.
	Change func(path string, body []byte) []byte
	// Endless sends data after a blob's last byte, for ever.
	Endless bool
	// Pause is the pause before each KiB of a blob.
	Pause time.Duration
	// Redirect redirects requests for blobs to another base URL.
	Redirect string
}

// Seen summarizes the requests to a registry.
type Seen struct {
	// Requests counts requests, Blobs answers with blobs, BlobBytes the bytes of blobs that were
	// written.
	Requests, Blobs int
	BlobBytes       int64
	// Credentials are the received Authorization headers.
	Credentials []string
	// Ranges are the received Range headers.
	Ranges []string
}

// Registry is a registry on loopback.
type Registry struct {
	// Host is its HOST:PORT.
	Host   string
	server *http.Server
	inner  http.Handler
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	faults Faults
	seen   Seen
}

// StartRegistry starts an empty registry over plain HTTP.
func StartRegistry() (*Registry, error) { return start(images(), nil) }

// StartTLSRegistry starts a registry over HTTPS, with the certificate of config.
func StartTLSRegistry(config *tls.Config) (*Registry, error) { return start(images(), config) }

// StartServer starts another server over plain HTTP, or over HTTPS with a config, that misbehaves like a registry: what it
// has below a path that contains /blobs/ are its blobs.
func StartServer(inner http.Handler, config *tls.Config) (*Registry, error) {
	return start(inner, config)
}

// images is a registry's own work.
func images() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

func start(inner http.Handler, config *tls.Config) (*Registry, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Wrap(err, "cannot start a registry")
	}
	r := &Registry{Host: l.Addr().String(), inner: inner, closed: make(chan struct{})}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// Close ends the registry with all its connections.
func (r *Registry) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.server.Close()
}

// Set changes how the registry misbehaves from now on.
func (r *Registry) Set(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = f
}

// Seen summarizes the requests since the start or the last Forget.
func (r *Registry) Seen() Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	s.Credentials, s.Ranges = append([]string{}, s.Credentials...), append([]string{}, s.Ranges...)
	return s
}

// Forget resets the counters.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = Seen{}
}

// Behind bypasses the faults and the counters, for pushes while the registry misbehaves.
func (r *Registry) Behind() remote.Option { return remote.WithTransport(straight{r.inner}) }

// straight passes requests to a handler without a network.
type straight struct{ to http.Handler }

func (s straight) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if req.Body == nil {
		req.Body = http.NoBody
	}
	s.to.ServeHTTP(w, req)
	res := w.Result()
	res.Request = req
	return res, nil
}

// ServeHTTP answers as a registry, with the set faults.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f := r.note(req)
	switch {
	case f.Silent:
		r.hang(req)
	case f.Status != 0:
		http.Error(w, "told to", f.Status)
	case req.URL.Path == "/token":
		f.token(w, req)
	case !f.allowed(w, req):
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		r.inner.ServeHTTP(w, req)
	case f.Redirect != "" && strings.Contains(req.URL.Path, "/blobs/"):
		http.Redirect(w, req, f.Redirect+req.URL.Path, http.StatusTemporaryRedirect)
	default:
		r.answer(w, req, f)
	}
}

// note counts a request, and returns the faults for it.
func (r *Registry) note(req *http.Request) Faults {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Requests++
	if a := req.Header.Get("Authorization"); a != "" {
		r.seen.Credentials = append(r.seen.Credentials, a)
	}
	if a := req.Header.Get("Range"); a != "" {
		r.seen.Ranges = append(r.seen.Ranges, a)
	}
	return r.faults
}

// hang waits until the client gives up or the registry ends.
func (r *Registry) hang(req *http.Request) {
	select {
	case <-req.Context().Done():
	case <-r.closed:
	}
}
