package store

import (
	"context"
	"database/sql"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Results keeps the nodes' results, each in the row of its reservation, and the births of
// the nodes' stores.
type Results struct {
	writer *writer
	shares *limit.Shares
}

// Answer is a verified result on its way in.
type Answer struct {
	N      uint64
	Result *workload.Result
	// Body is the result as received.
	Body []byte
}

// unsigned reports whether the answer has no signature: anybody could have made it.
func (a Answer) unsigned() bool { return len(a.Result.Signature) == 0 }

// mayAnswer refuses a version 1 result for a node that signs its writes, and an unsigned one where
// a signed one is stored.
func (t *tx) mayAnswer(a Answer, nodeID string, present []byte) error {
	if a.Result.Birth != "" {
		return nil // version 2: verified for this very reservation
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
		return node.Errorf(node.Refused, "cannot accept this result of %s-1: it isn't signed, and the stored one is", formatNumber(a.N))
	}
	return nil
}

// Put stores a node's result unless a newer one is stored: of two of one birth the greater sequence
// is newer, of two births the one first seen later.
func (s *Results) Put(ctx context.Context, a Answer) error {
	r := a.Result
	give := func() {}
	var smaller func()
	err := s.writer.write(ctx, func(t *tx) error {
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
			smaller = func() { s.shares.HoldKnown(nodeID, more) }
		} else if give, err = s.shares.TakeKnown(nodeID, more); err != nil {
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

// place is the position of a birth among the node's births. The empty birth of version 1 results
// comes before all.
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

// Gone records an unsigned report that the workload is gone from its node; the result stays.
// Refused for a node that signs its writes.
func (s *Results) Gone(ctx context.Context, n uint64) error {
	return s.writer.write(ctx, func(t *tx) error {
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
