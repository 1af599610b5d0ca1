package health

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/limit/seen"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// Config configures a Server.
type Config struct {
	// Listen is host:port; port 0 takes a free one.
	Listen string
	// File, when not empty, receives the address in use.
	File string
	// Modules are the node's modules.
	Modules []module.Descriptor
	// Alive returns an error while the engine is stuck, within a few seconds.
	Alive func(ctx context.Context) error
	// Status reads the node's status.
	Status func(ctx context.Context) (nodestatus.Status, error)
	Log    zerolog.Logger
}

// Server serves a node's health.
type Server struct {
	Config
	listener net.Listener
}

// Listen opens the port and writes the address in use to the file.
func Listen(ctx context.Context, c Config) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot listen on health-listen %s", c.Listen)
	}
	if c.File != "" {
		if err := atomicfile.WriteFile(c.File, []byte(listener.Addr().String()+"\n"), 0o644); err != nil {
			_ = listener.Close()
			return nil, errors.Wrap(err, "cannot write health-file")
		}
	}
	return &Server{Config: c, listener: listener}, nil
}

// Address is the address of the listening socket.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	defer server.Close()
	err := server.Serve(s.listener)
	if s.File != "" {
		_ = os.Remove(s.File)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Wrap(err, "cannot serve health")
}

func (s *Server) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(s.Modules, s.Status), seen.Collector("croft_limit_reached_total"), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.alive)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: 4}))
	return mux
}

func (s *Server) alive(w http.ResponseWriter, r *http.Request) {
	if err := s.Alive(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	status, err := s.Status(r.Context())
	readiness := host.ReadinessSpec{Checks: []host.Check{host.Fail("status", "the node's status can't be read")}}
	if err == nil {
		readiness = Judge(status, time.Now(), s.Modules)
	} else {
		s.Log.Warn().Err(err).Msg("cannot determine readiness")
	}
	w.Header().Set("Content-Type", "application/json")
	if !readiness.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(readiness); err != nil {
		s.Log.Debug().Err(err).Msg("the client of /readyz disconnected")
	}
}
