package api

import (
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// How long one request may take to arrive and its answer to be sent. A long poll's wait comes on
// top.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 60 * time.Second
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.routed(r) {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.noRoute(w, r)
}

// routed reports whether a route matches the path unchanged: the mux would redirect a path that
// isn't clean.
func (s *Server) routed(r *http.Request) bool {
	_, pattern := s.mux.Handler(r)
	return pattern != "" && path.Clean(r.URL.Path) == r.URL.Path
}

// noRoute gives the mux's answer in this interface's error format.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	seen := &header{header: http.Header{}}
	if handler, pattern := s.mux.Handler(r); pattern == "" {
		handler.ServeHTTP(seen, r)
	}
	err := node.Errorf(node.NotExist, "cannot find %q: there is no such path; see /openapi.json", limitText(r.URL.Path))
	if seen.status == http.StatusMethodNotAllowed {
		allow := seen.header.Get("Allow")
		w.Header().Set("Allow", allow)
		err = withStatus(http.StatusMethodNotAllowed, node.Errorf(node.Invalid, "cannot %s %q: allowed are %s", limitText(r.Method), limitText(r.URL.Path), allow))
	}
	s.metrics.request("none", writeProblem(w, err), time.Since(started))
}

// header records the mux's answer where no route matches.
type header struct {
	header http.Header
	status int
}

func (h *header) Header() http.Header         { return h.header }
func (h *header) Write(b []byte) (int, error) { return len(b), nil }
func (h *header) WriteHeader(status int)      { h.status = status }

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// handle wraps a route in the limits, deadlines and error answers that all routes share, and
// recovers from panics.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		out := &recorder{ResponseWriter: w}
		deadlines(out, started.Add(readTimeout), started.Add(writeTimeout))
		err := s.answer(rt, out, r)
		if err != nil && out.status == 0 {
			writeProblem(out, err)
		}
		s.metrics.request(rt.pattern, out.status, time.Since(started))
		s.logRequest(r, out.status, err)
	})
}

func (s *Server) answer(rt route, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler: //nolint:errorlint // net/http compares it so
			panic(p)
		default:
			err = errors.Errorf("cannot answer: panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := s.rates.address(r); err != nil {
		return err
	}
	give, err := holdBody(s.bodies, w, r)
	if err != nil {
		return err
	}
	defer give()
	return rt.handler(w, r)
}

// deadlines bounds reading and writing of this request. A connection that supports no deadlines (a
// test's recorder) has none.
func deadlines(w http.ResponseWriter, read, write time.Time) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(read)
	_ = rc.SetWriteDeadline(write)
}

func (s *Server) logRequest(r *http.Request, status int, err error) {
	e := s.log.Debug()
	if status >= http.StatusInternalServerError && node.KindOf(err) == node.Internal {
		e = s.log.Error()
	}
	e.Str("method", r.Method).Str("path", limitText(r.URL.Path)).Str("remote", r.RemoteAddr).Int("status", status).Err(err).Msg("request")
}
