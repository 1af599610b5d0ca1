package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Push is a verified reservation on its way in.
type Push struct {
	Reservation *workload.Reservation
	Hash        workload.Hash
	// Body is the document as it came.
	Body []byte
}

// Pushed is what became of a push.
type Pushed struct {
	N uint64
	// Existed says that the hash was there already, as number N, with that
	// created and duration (which version 1 doesn't sign).
	Existed  bool
	Created  time.Time
	Duration time.Duration
}

// Reserve gives the reservation its number, and the node a change. A hash
// that is there already gets no second number. NotExist when the node isn't registered.
func (s *Store) Reserve(ctx context.Context, p Push) (Pushed, error) {
	var out Pushed
	r := p.Reservation
	give, err := s.roomFor(ctx, r.User, int64(len(p.Body)+rowBytes))
	if err != nil {
		return s.existing(ctx, p, err)
	}
	err = s.write(ctx, func(t *tx) error {
		var created, duration int64
		err := t.queryRow(`SELECT n, created, duration FROM reservations WHERE hash = ?`, p.Hash[:]).Scan(&out.N, &created, &duration)
		if err == nil {
			out.Existed, out.Created, out.Duration = true, time.Unix(0, created), time.Duration(duration)
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, ok := t.known(r.NodeID); !ok {
			return errNoNode(r.NodeID)
		}
		out.N = t.number()
		_, err = t.exec(`INSERT INTO reservations (n, node, change, user, hash, created, duration, expires, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			out.N, r.NodeID, t.change(r.NodeID), r.User, p.Hash[:], r.Created.UnixNano(), int64(r.Duration), r.Expires().UnixNano(), p.Body)
		return err
	})
	if err != nil || out.Existed {
		give()
	}
	return out, err
}

// existing answers a push for which there is no room: what is there already needs
// none.
func (s *Store) existing(ctx context.Context, p Push, full error) (Pushed, error) {
	var created, duration int64
	out := Pushed{Existed: true}
	err := s.read.QueryRowContext(ctx, `SELECT n, created, duration FROM reservations WHERE hash = ?`, p.Hash[:]).Scan(&out.N, &created, &duration)
	if err != nil {
		return Pushed{}, full
	}
	out.Created, out.Duration = time.Unix(0, created), time.Duration(duration)
	return out, nil
}

// Delete keeps the user's verified deletion, or the wish without one where
// deletion is nil. The first deletion is kept.
func (s *Store) Delete(ctx context.Context, n uint64, deletion *workload.Deletion) error {
	var doc []byte
	if deletion != nil {
		var err error
		if doc, err = json.Marshal(deletion); err != nil {
			return err
		}
	}
	return s.write(ctx, func(t *tx) error {
		var nodeID string
		var marked, signed bool
		err := t.queryRow(`SELECT node, to_delete, deletion IS NOT NULL FROM reservations WHERE n = ?`, n).Scan(&nodeID, &marked, &signed)
		if err != nil {
			return noReservation(n, err)
		}
		if signed || (marked && doc == nil) {
			return nil
		}
		_, err = t.exec(`UPDATE reservations SET to_delete = 1, deletion = ?, change = ? WHERE n = ?`, doc, t.change(nodeID), n)
		return err
	})
}

// Renew keeps the user's verified renewal. The same one twice is fine.
// Refused when the reservation is to be deleted or gone, or wouldn't live longer.
func (s *Store) Renew(ctx context.Context, n uint64, renewal workload.Renewal) error {
	doc, err := json.Marshal(renewal)
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		var nodeID string
		var expires int64
		var ended bool
		err := t.queryRow(`SELECT node, expires, to_delete OR gone FROM reservations WHERE n = ?`, n).Scan(&nodeID, &expires, &ended)
		if err != nil {
			return noReservation(n, err)
		}
		wanted := renewal.Expires.UnixNano()
		switch {
		case ended:
			return node.Errorf(node.Refused, "cannot renew %s-1: it is deleted", formatNumber(n))
		case wanted == expires:
			return nil
		case wanted < expires:
			return node.Errorf(node.Refused, "cannot renew %s-1: expires is %s, must be later than the present %s", formatNumber(n),
				renewal.Expires.UTC().Format(time.RFC3339), time.Unix(0, expires).UTC().Format(time.RFC3339))
		}
		_, err = t.exec(`UPDATE reservations SET expires = ?, renewal = ?, change = ? WHERE n = ?`, wanted, doc, t.change(nodeID), n)
		return err
	})
}

// Answer is a verified result on its way in.
type Answer struct {
	N      uint64
	Result *workload.Result
	// Body is the result as it came.
	Body []byte
}

// unsigned reports whether anybody could have made the answer.
func (a Answer) unsigned() bool { return len(a.Result.Signature) == 0 }

// mayAnswer refuses a result of version 1 for a node that signs what it writes, and
// an unsigned one where a signed one is.
func (t *tx) mayAnswer(a Answer, nodeID string, present []byte) error {
	if a.Result.Birth != "" {
		return nil // of version 2: verified for this very reservation
	}
	if err := t.neverSigned(nodeID); err != nil {
		return err
	}
	if present == nil || !a.unsigned() {
		return nil
	}
	signed, err := workload.DecodeResult(present)
	if err != nil {
		return err
	}
	if len(signed.Signature) > 0 {
		return node.Errorf(node.Refused, "cannot accept this result of %s-1: it isn't signed, and the one that is there is", formatNumber(a.N))
	}
	return nil
}

// PutResult keeps a node's result unless a newer one is there: of two of one
// birth the greater sequence, of two births the one first seen later.
func (s *Store) PutResult(ctx context.Context, a Answer) error {
	r := a.Result
	give := func() {}
	var smaller func()
	err := s.write(ctx, func(t *tx) error {
		var nodeID, birth string
		var sequence int64
		var present []byte
		err := t.queryRow(`SELECT node, birth, sequence, result FROM reservations WHERE n = ?`, a.N).Scan(&nodeID, &birth, &sequence, &present)
		if err != nil {
			return noReservation(a.N, err)
		}
		if err := t.mayAnswer(a, nodeID, present); err != nil {
			return err
		}
		newer, err := t.newer(nodeID, r, birth, sequence)
		if err != nil {
			return err
		}
		if present != nil && !newer {
			return nil
		}
		more := int64(len(a.Body) - len(present))
		if more < 0 {
			smaller = func() { s.stored.HoldKnown(nodeID, more) }
		} else if give, err = s.stored.TakeKnown(nodeID, more); err != nil {
			give = func() {}
			return node.Errorf(node.NoSpace, "cannot keep this result: %w", err)
		}
		_, err = t.exec(`UPDATE reservations SET result = ?, state = ?, birth = ?, sequence = ?, gone = gone OR ? WHERE n = ?`,
			a.Body, string(r.State), r.Birth, r.Sequence, workload.Ended(r.State), a.N)
		return err
	})
	switch {
	case err != nil:
		give()
	case smaller != nil:
		smaller()
	}
	return err
}

// newer reports whether r replaces the result of that birth and sequence.
func (t *tx) newer(nodeID string, r *workload.Result, birth string, sequence int64) (bool, error) {
	place, err := t.place(nodeID, r.Birth)
	if err != nil {
		return false, err
	}
	if r.Birth == birth {
		return r.Sequence > sequence || r.Sequence == 0, nil
	}
	present, err := t.place(nodeID, birth)
	return place > present, err
}

// place is where birth stands among the node's births. The empty birth of
// version 1 results is before all.
func (t *tx) place(nodeID, birth string) (int64, error) {
	if birth == "" {
		return 0, nil
	}
	var place int64
	err := t.queryRow(`SELECT place FROM births WHERE node = ? AND birth = ?`, nodeID, birth).Scan(&place)
	if !errors.Is(err, sql.ErrNoRows) {
		return place, err
	}
	if err := t.queryRow(`SELECT coalesce(max(place), 0) + 1 FROM births WHERE node = ?`, nodeID).Scan(&place); err != nil {
		return 0, err
	}
	if place > births.Each {
		births.Reached()
		return 0, node.Errorf(node.NoSpace, "cannot keep this result: node %s has had %d stores already, which is the most", nodeID, births.Each)
	}
	_, err = t.exec(`INSERT INTO births (node, birth, place) VALUES (?, ?, ?)`, nodeID, birth, place)
	return place, err
}

// Gone keeps that the workload is gone from its node, which nobody signed; the
// result stays. Refused for a node that signs what it writes.
func (s *Store) Gone(ctx context.Context, n uint64) error {
	return s.write(ctx, func(t *tx) error {
		var nodeID string
		if err := t.queryRow(`SELECT node FROM reservations WHERE n = ?`, n).Scan(&nodeID); err != nil {
			return noReservation(n, err)
		}
		if err := t.neverSigned(nodeID); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE reservations SET gone = 1 WHERE n = ?`, n)
		return err
	})
}

func noReservation(n uint64, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return node.Errorf(node.NotExist, "cannot find reservation %s-1: there is none", formatNumber(n))
	}
	return err
}
