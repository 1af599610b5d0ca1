package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// Window is the largest difference between a request's time and the node's clock,
// when that is trusted.
const Window = 5 * time.Minute

// MaxRequests is how many signed requests one connection may bring: their
// nonces are remembered as long as it lives.
const MaxRequests = 1000

// WrongTimeError refuses a request for its time.
type WrongTimeError struct {
	At, Now time.Time
}

func (e *WrongTimeError) Error() string {
	return fmt.Sprintf("cannot verify request: it was signed at %s, must be within 5 minutes of the node's clock, which says %s",
		e.At.UTC().Format(time.RFC3339), e.Now.UTC().Format(time.RFC3339))
}

// Unwrap gives the error its kind.
func (e *WrongTimeError) Unwrap() error { return node.Refused }

// Verifier authenticates requests.
type Verifier struct {
	// Node is the ID of the node that it must be for.
	Node string
	// Now is the node's clock, and whether it is trusted. While it isn't, no
	// request is refused for its time: the connection's binding alone keeps
	// one from being used again.
	Now func() (time.Time, bool)
}

// Verify returns the user who signed the request for this node and for the
// connection that it came by. A request that came before by the same
// connection, and every other error, is Refused. The connection's context
// must come from WithSession.
func (v Verifier) Verify(r *http.Request, body []byte) (string, error) {
	binding, err := Binding(r.TLS)
	if err != nil {
		return "", node.WithKind(node.Refused, err)
	}
	return v.VerifyOn(r, body, binding)
}

// VerifyOn is Verify where another process has the TLS connection, and states its
// Binding. That process may state the binding of an older connection: the caller has
// to make sure that a binding is of one connection only.
func (v Verifier) VerifyOn(r *http.Request, body, binding []byte) (string, error) {
	in, signature, err := requestOf(v.Node, r, body)
	if err != nil {
		return "", node.WithKind(node.Refused, err)
	}
	in.Binding = binding
	if err := sign.Verify(in.User, in.SigningBytes(), signature); err != nil {
		return "", refusedRequest("%w (for node %s, on this connection)", err, v.Node)
	}
	if now, trusted := v.Now(); trusted {
		if d := in.Time.Sub(now); d > Window || d < -Window {
			return "", &WrongTimeError{At: in.Time, Now: now}
		}
	}
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok {
		return "", refusedRequest("its connection isn't known")
	}
	return in.User, s.use(in.Nonce)
}

// sessionKey is the key of a connection's session in its context.
type sessionKey struct{}

// session remembers the nonces of one connection. Nothing needs to outlive it:
// a signature for one connection holds on no other.
type session struct {
	mu   sync.Mutex
	seen map[[nonceSize]byte]bool
}

// WithSession is the context of one connection.
func WithSession(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, &session{seen: map[[nonceSize]byte]bool{}})
}

func (s *session) use(nonce []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [nonceSize]byte(nonce)
	if s.seen[key] {
		return refusedRequest("it came before")
	}
	if len(s.seen) >= MaxRequests {
		return refusedRequest("this connection brought %d, which is the most", MaxRequests)
	}
	s.seen[key] = true
	return nil
}
