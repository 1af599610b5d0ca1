package explorer

import (
	"context"
	"crypto/tls"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/explorer/api"
	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/explorer/tunnel"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// headerTimeout is how long a client may take for a request's headers.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection stays open between requests.
	idleTimeout = 2 * time.Minute
	// stopTimeout is how long requests in hand may take when the explorer stops.
	stopTimeout = 10 * time.Second
	maxHeaders  = 16 << 10
)

// Config is what an explorer needs.
type Config struct {
	// Listen is HOST:PORT; port 0 is any free one.
	Listen string
	// DB is the path of the database file.
	DB string
	// TLSCert and TLSKey are PEM files; both empty is plain HTTP.
	TLSCert, TLSKey string
	// PortFile, when not empty, is the file that receives the address once it listens.
	PortFile string
	Policy   api.Policy
	// MaxStored is how many bytes of reservations and results are kept (0:
	// store.DefaultStored).
	MaxStored int64
	// Validate checks the data of a reservation; nil checks nothing.
	Validate func(*workload.Reservation) error
	Version  string
	Log      zerolog.Logger
	// Now is the clock (nil: time.Now).
	Now func() time.Time
	// HeaderTimeout is how long a client may take for a request's headers (0: 10 s).
	HeaderTimeout time.Duration
}

// check refuses an unusable configuration.
func (c Config) check() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return node.Errorf(node.Invalid, "cannot listen on %q: it must be HOST:PORT", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return node.Errorf(node.Invalid, "cannot use TLS: tls-cert and tls-key go together")
	}
	return c.Policy.Validate()
}

// Service is an explorer that listens.
type Service struct {
	config   Config
	store    *store.Store
	waiters  *longpoll.Waiters
	tunnels  *tunnel.Hub
	listener net.Listener
	server   *http.Server
	cert     *certificate
}

// Open opens the database and listens; Run serves.
func Open(ctx context.Context, c Config) (*Service, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HeaderTimeout == 0 {
		c.HeaderTimeout = headerTimeout
	}
	s := &Service{config: c, waiters: longpoll.NewWaiters()}
	if c.TLSCert != "" {
		var err error
		if s.cert, err = loadCertificate(c.TLSCert, c.TLSKey); err != nil {
			return nil, err
		}
	}
	if err := s.open(ctx); err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) error {
	most, err := connectionLimit(s.config.Policy)
	if err != nil {
		return err
	}
	c := s.config
	c.Policy = fit(c.Policy, most)
	metrics := api.NewMetrics()
	if c.Policy.MaxTunnels > 0 {
		limits := tunnel.DefaultLimits()
		limits.Tunnels.Total = int64(c.Policy.MaxTunnels)
		limits.Owners.Total = min(limits.Owners.Total, most.Total/4)
		limits.Strangers.Total = min(limits.Strangers.Total, most.Total/8)
		s.tunnels = tunnel.New(limits, c.Log)
	}
	s.store, err = store.Open(ctx, store.Config{Path: c.DB, MaxStored: c.MaxStored, Now: c.Now, Changed: s.waiters.Changed, Committed: metrics.Committed})
	if err != nil {
		return err
	}
	handler, err := api.New(api.Config{
		Store: s.store, Waiters: s.waiters, Tunnels: s.tunnels, Policy: c.Policy, Metrics: metrics, Log: c.Log,
		Version: c.Version, Now: c.Now, Validate: c.Validate,
	})
	if err != nil {
		return err
	}
	s.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: c.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaders,
		ErrorLog: stdlog.New(debugWriter{c.Log}, "", 0),
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Wrap(err, "cannot listen")
	}
	places := newPlaces(listener, most)
	s.listener, s.server.ConnState = places, places.changed
	c.Log.Info().Int64("connections", most.Total).Int64("connections_source", most.Each).Int("polls", c.Policy.MaxPolls).
		Int("tunnels", c.Policy.MaxTunnels).Msg("limits derived from the limit of open files")
	if s.cert != nil {
		s.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.cert.get}
	}
	if c.PortFile != "" {
		return errors.Wrap(atomicfile.WriteFile(c.PortFile, []byte(s.Addr()+"\n"), 0o644), "cannot write the port file")
	}
	return nil
}

// Addr is the address that it listens on.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// URL is the address for clients.
func (s *Service) URL() string {
	if s.cert != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Run serves until ctx is done, then finishes the requests in hand: long polls are answered at
// once, writes are committed, the database is closed.
func (s *Service) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		if s.cert != nil {
			failed <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		failed <- s.server.Serve(s.listener)
	}()
	var err error
	select {
	case err = <-failed:
		err = errors.Wrap(err, "cannot serve")
	case <-ctx.Done():
		s.stop()
		<-failed //nolint:errcheck // that it was stopped is no failure
	}
	if cerr := s.close(); err == nil {
		err = cerr
	}
	return err
}

func (s *Service) stop() {
	s.waiters.Close()
	if s.tunnels != nil {
		s.tunnels.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.config.Log.Warn().Err(err).Msg("cannot finish all requests in time")
	}
}

func (s *Service) close() error {
	if s.tunnels != nil {
		s.tunnels.Close()
	}
	if s.server != nil {
		_ = s.server.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.store != nil {
		return s.store.Close()
	}
	return nil
}

// Reload reads the TLS files again; open connections keep the old certificate.
func (s *Service) Reload() error {
	if s.cert == nil {
		return nil
	}
	return s.cert.load()
}

// debugWriter receives net/http's log: broken connections of clients.
type debugWriter struct{ log zerolog.Logger }

func (w debugWriter) Write(b []byte) (int, error) {
	w.log.Debug().Str("http", string(b)).Msg("connection")
	return len(b), nil
}
