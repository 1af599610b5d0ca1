package api

import (
	"net/http"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// signatures checks the signatures of requests.
type signatures struct {
	now func() time.Time
	// counted counts a request against its key, and refuses it above the key's limit.
	counted func(key string) error
	// acceptUnsigned accepts nodes' unsigned writes.
	acceptUnsigned bool
}

// by checks the headers of a signed write. The store refuses a replay, in the write's own
// transaction.
func (s *signatures) by(r *http.Request, body []byte, role wire.Role) (store.Writer, error) {
	w, err := wire.VerifyWrite(r, body)
	if err != nil {
		return store.Writer{}, withStatus(http.StatusUnauthorized, err)
	}
	if w.Role != role {
		return store.Writer{}, node.Errorf(node.Refused, "cannot accept this signed as a %s: it must be signed as a %s", w.Role, role)
	}
	now := s.now()
	if d := w.Time.Sub(now); d > wire.WriteWindow || d < -wire.WriteWindow {
		return store.Writer{}, &wrongTime{at: w.Time, now: now, next: now, why: "it must be within 10 minutes"}
	}
	if err := s.counted(w.Key); err != nil {
		return store.Writer{}, err
	}
	return store.Writer{Key: w.Key, At: w.Time}, nil
}

// byNode is by for a node's write. An unsigned one has the zero Writer where the operator allows
// it. Call it before parsing the body.
func (s *signatures) byNode(r *http.Request, body []byte) (store.Writer, error) {
	if s.acceptUnsigned && !wire.Signed(r.Header) {
		return store.Writer{}, nil
	}
	return s.by(r, body, wire.RoleNode)
}

// ownWrite refuses a write for the node that another node signed.
func ownWrite(w store.Writer, nodeID string) error {
	if w.Key != "" && w.Key != nodeID {
		return node.Errorf(node.Refused, "cannot accept this for node %s: it is signed by %s", limitText(nodeID), w.Key)
	}
	return nil
}

// replayed turns the store's refusal of an old time into the answer. A key whose clock was ahead,
// within the window, learns the first time that it may sign.
func (s *signatures) replayed(w store.Writer, err error) error {
	var seen *store.ReplayedError
	if !errors.As(err, &seen) {
		return err
	}
	now := s.now()
	refusal := &wrongTime{at: w.At, now: now, next: now, why: "this key signed one of that time or later before"}
	if next := seen.Last.Add(1); next.After(now) {
		refusal.next = next
	}
	return refusal
}

// notInFuture refuses a document's time that is more than 10 minutes ahead, or
// that can't be counted in nanoseconds since 1970.
func notInFuture(now time.Time, field string, t time.Time) error {
	if t.Before(time.Unix(0, 0)) || t.After(time.Unix(0, 1<<63-1)) {
		return invalid(field, t.Format(time.RFC3339), "between 1970 and 2262")
	}
	if t.Sub(now) > wire.WriteWindow {
		return invalid(field, stamp(t), "at most 10 minutes after the explorer's clock ("+stamp(now)+")")
	}
	return nil
}
