package control

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/workload"
)

// The paths of the socket's API.
const (
	pathStatus      = "/status"
	pathEvict       = "/evict"
	pathAcceptOlder = "/store/accept-older"
	pathRefuseOlder = "/store/refuse-older"
	pathRestored    = "/store/restored"
)

// maxRequest bounds a request's body in bytes.
const maxRequest = 4096

// Server serves a node's control socket.
type Server struct {
	node     Node
	listener net.Listener
	log      zerolog.Logger
}

// maxConnections bounds the connections that are open at a time.
const maxConnections = 64

// Listen opens the socket, as privatesocket does.
func Listen(ctx context.Context, socket string, n Node, log zerolog.Logger) (*Server, error) {
	listener, err := privatesocket.Listen(ctx, privatesocket.Config{Path: socket, Connections: maxConnections, Log: log})
	if err != nil {
		return nil, err
	}
	return &Server{node: n, listener: listener, log: log}, nil
}

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	defer s.listener.Close()
	err := server.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Wrap(err, "cannot serve the control socket")
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, r *http.Request) {
		status, err := s.node.Status(r.Context())
		s.answer(w, status, err)
	})
	mux.HandleFunc("POST "+pathEvict, func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, struct{}{}, s.evict(w, r))
	})
	mux.HandleFunc("POST "+pathAcceptOlder, func(w http.ResponseWriter, r *http.Request) {
		s.log.Warn().Msg("operator: older reservations are accepted from now on")
		s.answer(w, struct{}{}, s.node.AcceptOlder(r.Context()))
	})
	mux.HandleFunc("POST "+pathRefuseOlder, func(w http.ResponseWriter, r *http.Request) {
		s.log.Warn().Msg("operator: older reservations are refused from now on")
		s.answer(w, struct{}{}, s.node.RefuseOlder(r.Context()))
	})
	mux.HandleFunc("POST "+pathRestored, func(w http.ResponseWriter, r *http.Request) {
		s.log.Warn().Msg("operator: the store was restored from a backup")
		s.answer(w, struct{}{}, s.node.Restored(r.Context()))
	})
	return mux
}

// evictRequest is the body of an eviction.
type evictRequest struct {
	ID string `json:"id"`
}

func (s *Server) evict(w http.ResponseWriter, r *http.Request) error {
	var in evictRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return node.Errorf(node.Invalid, "cannot evict: the request isn't {\"id\": \"N-M\"}")
	}
	id, err := workload.ParseID(in.ID)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	s.log.Warn().Str("id", id.String()).Msg("operator: evict")
	return s.node.Evict(r.Context(), id.String())
}

// failure is the encoding of an error.
type failure struct {
	Kind  node.Kind `json:"kind"`
	Error string    `json:"error"`
}

func (s *Server) answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		value = failure{Kind: node.KindOf(err), Error: err.Error()}
	}
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.log.Debug().Err(err).Msg("the control socket's client disconnected")
	}
}
