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

// Faults is how a registry misbehaves. The zero value serves well.
type Faults struct {
	// User and Password are asked for, as HTTP's basic auth, or when Token is
	// set for a bearer token that the registry itself gives to who has them.
	User, Password string
	Token          bool
	// Realm is where Token sends who has no token; empty is the registry itself.
	Realm string
	// Silent accepts requests and never answers.
	Silent bool
	// Status answers everything with a status such as 503.
	Status int
	// HangAfter and CutAfter end a blob's answer after that many bytes: by
	// saying nothing more, or by cutting the connection. 0 is never. Times
	// says how often, 0 always.
	HangAfter, CutAfter int64
	Times               int
	// Change changes what is answered for a path such as /v2/app/manifests/1:
	// a registry that lies.
	Change func(path string, body []byte) []byte
	// Endless goes on after a blob's last byte, for ever.
	Endless bool
	// Pause is made before each KiB of a blob.
	Pause time.Duration
	// Redirect sends who asks for a blob to another base URL.
	Redirect string
}

// Seen is what a registry was asked.
type Seen struct {
	// Requests and Blobs count answers, BlobBytes the bytes of blobs that were
	// written.
	Requests, Blobs int
	BlobBytes       int64
	// Credentials are the Authorization headers that came.
	Credentials []string
	// Ranges are the Range headers that came.
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
func StartRegistry() (*Registry, error) { return startRegistry(nil) }

// StartTLSRegistry starts one over HTTPS, with the certificate of config.
func StartTLSRegistry(config *tls.Config) (*Registry, error) { return startRegistry(config) }

func startRegistry(config *tls.Config) (*Registry, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Wrap(err, "cannot start a registry")
	}
	r := &Registry{Host: l.Addr().String(), closed: make(chan struct{})}
	r.inner = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// Close ends it with all its connections.
func (r *Registry) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.server.Close()
}

// Set changes how it misbehaves from now on.
func (r *Registry) Set(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = f
}

// Seen is what it was asked since the start or the last Forget.
func (r *Registry) Seen() Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	s.Credentials, s.Ranges = append([]string{}, s.Credentials...), append([]string{}, s.Ranges...)
	return s
}

// Forget starts counting anew.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = Seen{}
}

// Behind lets pushes into the registry while it misbehaves, and doesn't count them.
func (r *Registry) Behind() remote.Option { return remote.WithTransport(straight{r.inner}) }

// straight hands requests to a handler without a network.
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

// ServeHTTP answers as a registry, or as one that misbehaves.
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

// note counts a request, and returns how it is served.
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

// hang waits until the other side gives up or the registry ends.
func (r *Registry) hang(req *http.Request) {
	select {
	case <-req.Context().Done():
	case <-r.closed:
	}
}
