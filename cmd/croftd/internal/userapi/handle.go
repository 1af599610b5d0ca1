package userapi

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = wire.MaxBody

// request is an authenticated request with its body.
type request struct {
	*http.Request
	user string
	body []byte
}

// handler answers a request or returns an error.
type handler func(w http.ResponseWriter, r request) error

func (d *Door) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+nodeapi.PathVersion, d.guarded(func(w http.ResponseWriter, _ *http.Request) error {
		return writeJSON(w, nodeapi.Version{NodeID: d.NodeID, Version: d.Version})
	}))
	for pattern, h := range map[string]handler{
		"POST " + nodeapi.PathDeletions:                d.delete,
		"GET " + nodeapi.PathWorkloads + "{id}/status": d.owned(d.status),
		"GET " + nodeapi.PathWorkloads + "{id}/events": d.owned(d.events),
		"GET " + nodeapi.PathWorkloads + "{id}/logs":   d.owned(d.logs),
		"GET " + nodeapi.PathWorkloads + "{id}/stats":  d.owned(d.stats),
		"POST " + nodeapi.PathWorkloads + "{id}/exec":  d.owned(d.exec),
	} {
		mux.Handle(pattern, d.guarded(d.signed(h)))
	}
	nowhere := d.guarded(func(http.ResponseWriter, *http.Request) error {
		return node.Errorf(node.NotExist, "cannot find this: there is no such path")
	})
	mux.Handle("/", nowhere)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path {
			nowhere.ServeHTTP(w, r) // the mux would redirect
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// recorder remembers whether an answer has begun.
type recorder struct {
	http.ResponseWriter
	begun bool
}

func (w *recorder) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// guarded is the only place that turns errors into answers and recovers panics.
func (d *Door) guarded(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &recorder{ResponseWriter: w}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.Limits.Body + d.Limits.Idle))
		err := supervise.Guard(d.Log, "door", func() error { return h(out, r) })
		e := d.Log.Debug()
		if node.KindOf(err) == node.Internal {
			e = d.Log.Error()
		}
		e.Str("method", r.Method).Str("path", short(r.URL.Path)).Str("remote", r.RemoteAddr).Err(err).Msg("door")
		if err != nil && !out.begun {
			d.problem(out, err)
		}
	})
}

func short(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}

// signed reads the body and authenticates the user.
func (d *Door) signed(h handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var over *http.MaxBytesError
		switch {
		case errors.As(err, &over):
			return node.Errorf(node.Invalid, "cannot take this: its body is larger than %d bytes", maxBody)
		case err != nil:
			return node.WithKind(node.Transient, errors.Wrap(err, "cannot read the body"))
		}
		user, err := d.user(r, body)
		if err != nil {
			// A client that can't sign has no business on this connection; one whose clock is wrong may
			// try again.
			var late *nodeapi.WrongTimeError
			if !errors.As(err, &late) {
				w.Header().Set("Connection", "close")
			}
			return &unauthorized{err}
		}
		if d.Workloads.Holds(user) {
			if err := d.stay(r.Context(), user); err != nil {
				w.Header().Set("Connection", "close")
				return err
			}
		}
		return h(w, request{Request: r, user: user, body: body})
	}
}

// user returns the signer of a request, verified over the signed bytes. The binding, which the door's
// process reports, counts for one connection only.
func (d *Door) user(r *http.Request, body []byte) (string, error) {
	c := callerOf(r.Context())
	user, err := d.verifier.VerifyOn(r, body, c.binding[:])
	if err != nil || !d.Workloads.Holds(user) {
		return user, err
	}
	return user, d.bindings.claim(user, c)
}

// unauthorized is the error of a request that couldn't be authenticated.
type unauthorized struct{ error }

func (e *unauthorized) Unwrap() error { return e.error }

// owned lets only the workload's owner pass. Other users get NotExist, so that IDs in use aren't
// disclosed.
func (d *Door) owned(h handler) handler {
	return func(w http.ResponseWriter, r request) error {
		if err := d.owns(r, r.PathValue("id")); err != nil {
			return err
		}
		return h(w, r)
	}
}

func (d *Door) owns(r request, id string) error {
	missing := node.Errorf(node.NotExist, "cannot find workload %q: you have none of that ID on this node", short(id))
	if !workload.IsID(id) {
		return missing
	}
	owner, err := d.Workloads.Owner(r.Context(), id)
	switch {
	case errors.Is(err, node.NotExist):
		return missing
	case err != nil:
		return err
	case owner != r.user:
		return missing
	}
	return nil
}

// problem writes an error's answer, in the explorer's form.
func (d *Door) problem(w http.ResponseWriter, err error) {
	kind := node.KindOf(err)
	p := explorer.Problem{Type: "about:blank", Status: explorer.StatusOf(kind), Kind: string(kind), Detail: err.Error()}
	var unknown *unauthorized
	if errors.As(err, &unknown) {
		p.Status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Croft")
	}
	var late *nodeapi.WrongTimeError
	if errors.As(err, &late) {
		now := late.Now.UTC()
		p.Time = &now
	}
	if kind == node.Internal {
		p.Detail = "cannot answer: the node failed; its log says more"
	}
	p.Title, p.Error = http.StatusText(p.Status), p.Detail
	body, merr := json.Marshal(p)
	if merr != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone, or it has the answer
}

func writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errors.Wrap(err, "cannot encode the answer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n')) // as above
	return nil
}
