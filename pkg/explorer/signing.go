package explorer

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// maxRetimes is how often a write is signed again: once for the clock, once for the key's last
// write.
const maxRetimes = 2

// signing signs writes, one after the other: the explorer accepts only growing times of a key.
type signing struct {
	// signer is nil where the client has no key.
	signer *Signer
	now    func() time.Time

	mu sync.Mutex
	// offset is the explorer's clock less this one, from its last refusal.
	offset time.Duration
	// last is the time of the last write, in nanoseconds since 1970.
	last int64
}

// sender makes and sends requests.
type sender interface {
	request(ctx context.Context, k call) (*http.Request, error)
	send(r *http.Request, k call) (answer, error)
}

// send signs the request and sends it. When the explorer refuses its time, send signs again with
// the explorer's: a node whose clock starts in 1970 must be able to register. That is safe, since
// only the explorer's guard against replays uses this time, and the host is signed too.
func (s *signing) send(ctx context.Context, k call, by sender) (answer, error) {
	if s.signer == nil {
		return answer{}, node.Errorf(node.Invalid, "cannot %s: the client has no key to sign with", k.what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.sendOnce(ctx, k, by)
	for range maxRetimes {
		var refused *AnswerError
		if !errors.As(err, &refused) || refused.Problem.Time == nil {
			break
		}
		s.offset = refused.Problem.Time.Sub(s.now())
		s.last = 0
		a, err = s.sendOnce(ctx, k, by)
	}
	return a, err
}

// sendOnce signs and sends the request once. The lock is held.
func (s *signing) sendOnce(ctx context.Context, k call, by sender) (answer, error) {
	r, err := by.request(ctx, k)
	if err != nil {
		return answer{}, err
	}
	at := s.now().Add(s.offset).UnixNano()
	if at <= s.last {
		at = s.last + 1
	}
	s.last = at
	w := Write{Role: s.signer.Role, Key: s.signer.ID, Method: k.method, Host: r.URL.Host, Path: r.URL.EscapedPath(), Body: k.body, Time: time.Unix(0, at)}
	signature, err := s.signer.Sign(w.SigningBytes())
	if err != nil {
		return answer{}, errors.Wrapf(err, "cannot sign to %s", k.what)
	}
	w.SetHeaders(r.Header, signature)
	return by.send(r, k)
}
