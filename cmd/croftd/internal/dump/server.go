// Package dump serves the debug socket: GET /dump is a YAML document of what the process knows at that moment, one
// member a section, and GET /dump/NAME one of them, or the resources of one type. It prints what sections give, so
// sections must give no secrets. A section that fails, hangs, panics or is too large becomes one line of the dump.
package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/yamljson"
)

// connections bounds those that are open at a time.
const connections = 32

// Section is one part of a dump.
type Section struct {
	// Name is the member's: small letters, digits and hyphens.
	Name string
	// Read gives what is shown, by its JSON members. It should end when ctx is done.
	Read func(ctx context.Context) (any, error)
}

// Limits bound what dumps cost.
type Limits struct {
	// Time is a section's, Size its JSON's in bytes.
	Time time.Duration
	Size int
	// Waiting is the most dumps that wait for the one in progress, each for at most Wait. Write bounds the time in which a
	// client takes its dump.
	Waiting     int64
	Wait, Write time.Duration
}

// DefaultLimits are those of a node.
func DefaultLimits() Limits {
	return Limits{Time: 10 * time.Second, Size: 4 << 20, Waiting: 8, Wait: time.Minute, Write: 30 * time.Second}
}

// Config describes the debug socket.
type Config struct {
	Path     string
	Sections []Section
	// Resources adds the section resources, and dumps of single types; nil adds nothing.
	Resources *Resources
	// Limits are DefaultLimits when they are zero.
	Limits Limits
	Log    zerolog.Logger
}

// Server serves the debug socket.
type Server struct {
	listener  *privatesocket.Listener
	sections  []*section
	resources *Resources
	// types reads the resources of the type that a client names.
	types  section
	limits Limits
	// turn is held by the dump in progress.
	turn    chan struct{}
	waiting atomic.Int64
	log     zerolog.Logger
}

// Listen opens the socket, as privatesocket does; Run serves it.
func Listen(ctx context.Context, config Config) (*Server, error) {
	sections, err := sectionsOf(config)
	if err != nil {
		return nil, err
	}
	limits := config.Limits
	if limits == (Limits{}) {
		limits = DefaultLimits()
	}
	listener, err := privatesocket.Listen(ctx, privatesocket.Config{Path: config.Path, Connections: connections, Log: config.Log})
	if err != nil {
		return nil, err
	}
	return &Server{
		listener: listener, sections: sections, resources: config.Resources, types: section{Section: Section{Name: "of one type"}, log: config.Log}, limits: limits, turn: make(chan struct{}, 1), log: config.Log,
	}, nil
}

// sectionsOf are the sections of a configuration, and the package's own.
func sectionsOf(config Config) ([]*section, error) {
	all := config.Sections[:len(config.Sections):len(config.Sections)]
	if config.Resources != nil {
		all = append(all, Section{Name: "resources", Read: config.Resources.read})
	}
	all = append(all, Section{Name: "goroutines", Read: goroutines})
	name := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	seen, out := map[string]bool{}, []*section{}
	for _, s := range all {
		switch {
		case !name.MatchString(s.Name):
			return nil, errors.Errorf("cannot dump section %q: its name must be small letters, digits and hyphens", s.Name)
		case seen[s.Name]:
			return nil, errors.Errorf("cannot dump section %q: there are two of that name", s.Name)
		}
		seen[s.Name] = true
		out = append(out, &section{Section: s, log: config.Log})
	}
	return out, nil
}

// Run serves until ctx is done, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	defer s.listener.Close()
	err := server.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Wrap(err, "cannot serve the debug socket")
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dump", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.all) })
	mux.HandleFunc("GET /dump/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, func(ctx context.Context) []member { return s.one(ctx, r.PathValue("name")) })
	})
	return mux
}

// answer waits for its turn and writes a dump.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, read func(context.Context) []member) {
	if err := s.take(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { <-s.turn }()
	document, err := written(read(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.Write))
	if _, err := w.Write(document); err != nil {
		s.log.Debug().Err(err).Msg("the debug socket's client disconnected")
	}
}

// take waits until no other dump is in progress.
func (s *Server) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > s.limits.Waiting {
		return errors.Errorf("cannot dump: %d others wait for their turn already", s.limits.Waiting)
	}
	limit := time.NewTimer(s.limits.Wait)
	defer limit.Stop()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-limit.C:
		return errors.Errorf("cannot dump: another dump is in progress for %s", s.limits.Wait)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// member is one of a dump's, with its JSON.
type member struct {
	name string
	raw  json.RawMessage
}

// written is a dump as YAML. Members are converted one by one: the converted form takes much more memory than the text.
func written(all []member) ([]byte, error) {
	if len(all) == 0 {
		return []byte("{}\n"), nil
	}
	var out bytes.Buffer
	for _, m := range all {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, errors.Wrap(err, "cannot dump")
		}
		text, err := yamljson.ToYAML(append(append(append([]byte{'{'}, name...), ':', ' '), append(m.raw, '}')...))
		if err != nil {
			return nil, errors.Wrapf(err, "cannot dump %s", m.name)
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
