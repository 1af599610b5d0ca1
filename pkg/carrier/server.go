package carrier

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/memory"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Server handles the requests to a carrier process. Its kind adds the
// operations with Handle, and background work with Background.
type Server struct {
	kind    Kind
	version string
	started time.Time
	info    func(Info) any
	// handlers take a request's document, as its line; they return the answer's.
	handlers map[string]func(ctx context.Context, line []byte) (any, error)
	parts    []supervise.Part
	stop     func()
	log      zerolog.Logger
}

func newServer(c ServeConfig, stop func(), log zerolog.Logger) *Server {
	s := &Server{
		kind: c.Kind, version: c.Version, started: time.Now(), info: func(i Info) any { return i },
		handlers: map[string]func(context.Context, []byte) (any, error){}, stop: stop, log: log,
	}
	s.handlers[opInfo] = func(context.Context, []byte) (any, error) { return s.about(), nil }
	s.handlers[opStop] = func(context.Context, []byte) (any, error) {
		s.stop()
		return s.about(), nil
	}
	return s
}

// Handle adds an operation: do gets the request's document, and returns the
// answer's. No document has a member "version", "op" or "error".
func Handle[Q, A any](s *Server, op string, do func(ctx context.Context, request Q) (A, error)) {
	s.handlers[op] = func(ctx context.Context, line []byte) (any, error) {
		var request Q
		if err := decodeRequest(line, &request); err != nil {
			return nil, node.Errorf(node.Invalid, "cannot read the request %q: %w", op, err)
		}
		return do(ctx, request)
	}
}

// Describe sets the function that makes the kind's Info.
func (s *Server) Describe(about func(Info) any) { s.info = about }

// Background runs a function beside the socket, until its context is done.
func (s *Server) Background(name string, run func(ctx context.Context)) {
	s.parts = append(s.parts, supervise.Part{Name: name, Run: func(ctx context.Context) error {
		run(ctx)
		return nil
	}})
}

// about is the answer to opInfo and opStop.
func (s *Server) about() any {
	info := s.info(Info{PID: os.Getpid(), Protocol: s.kind.Protocol, Version: s.version, Started: s.started, Memory: memory.Anonymous()})
	return infoAnswer[any]{Info: &info}
}

// answer answers a line. No request ends the process: a panic becomes an error.
func (s *Server) answer(ctx context.Context, line []byte) []byte {
	var document any
	err := supervise.Guard(s.log, "carrier", func() (err error) {
		document, err = s.do(ctx, line)
		return err
	})
	if err != nil {
		document = Nothing{}
	}
	out, err2 := encode(answerHead{Version: s.kind.Protocol, Error: failureOf(err)}, document)
	if err2 != nil {
		err2 = node.Errorf(node.Internal, "cannot write the answer: %w", err2)
		out, _ = encode(answerHead{Version: s.kind.Protocol, Error: failureOf(err2)}, Nothing{})
	}
	return out
}

// do handles one line. Operations of another protocol, and unknown members,
// are refused, not ignored; but for opInfo and opStop.
func (s *Server) do(ctx context.Context, line []byte) (any, error) {
	var head requestHead
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, node.Errorf(node.Invalid, "cannot read the request: it isn't one line of JSON")
	}
	handler := s.handlers[head.Op]
	if handler == nil {
		return nil, node.Errorf(node.Invalid, "cannot do %q: there is no such operation", head.Op)
	}
	if head.Version != s.kind.Protocol && head.Op != opInfo && head.Op != opStop {
		return nil, node.Errorf(node.Invalid, "cannot do %q of version %d: this carrier speaks version %d", head.Op, head.Version, s.kind.Protocol)
	}
	return handler(ctx, line)
}
