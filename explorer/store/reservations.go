package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Reservations is the table of reservations: their documents, deletions, renewals and
// present state.
type Reservations struct {
	read   *sql.DB
	writer *writer
	room   *room
}

// Push is a verified reservation on its way in.
type Push struct {
	Reservation *workload.Reservation
	Hash        workload.Hash
	// Body is the document as received.
	Body []byte
}

// Pushed is the outcome of a push.
type Pushed struct {
	N uint64
	// Existed says that the hash was stored already, as number N, with this created and duration
	// (which version 1 doesn't sign).
	Existed  bool
	Created  time.Time
	Duration time.Duration
}

// Reserve gives the reservation its number, and the node a change. A stored hash gets no second
// number. NotExist when the node isn't registered.
func (s *Reservations) Reserve(ctx context.Context, p Push) (Pushed, error) {
	var out Pushed
	r := p.Reservation
	give, err := s.room.take(ctx, r.User, int64(len(p.Body)+rowBytes))
	if err != nil {
		return s.existing(ctx, p, err)
	}
	err = s.writer.write(ctx, func(t *tx) error {
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

// existing answers a push for which there is no room: a stored reservation needs none.
func (s *Reservations) existing(ctx context.Context, p Push, full error) (Pushed, error) {
	var created, duration int64
	out := Pushed{Existed: true}
	err := s.read.QueryRowContext(ctx, `SELECT n, created, duration FROM reservations WHERE hash = ?`, p.Hash[:]).Scan(&out.N, &created, &duration)
	if err != nil {
		return Pushed{}, full
	}
	out.Created, out.Duration = time.Unix(0, created), time.Duration(duration)
	return out, nil
}

// Delete stores the user's verified deletion; nil is an unsigned one. The first signed deletion is
// kept.
func (s *Reservations) Delete(ctx context.Context, n uint64, deletion *workload.Deletion) error {
	var doc []byte
	if deletion != nil {
		var err error
		if doc, err = json.Marshal(deletion); err != nil {
			return err
		}
	}
	return s.writer.write(ctx, func(t *tx) error {
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

// Renew stores the user's verified renewal. The same one twice is fine. Refused when the
// reservation is deleted or gone, or wouldn't live longer.
func (s *Reservations) Renew(ctx context.Context, n uint64, renewal workload.Renewal) error {
	doc, err := json.Marshal(renewal)
	if err != nil {
		return err
	}
	return s.writer.write(ctx, func(t *tx) error {
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

func noReservation(n uint64, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return node.Errorf(node.NotExist, "cannot find reservation %s-1: there is none", formatNumber(n))
	}
	return err
}

func formatNumber(n uint64) string { return strconv.FormatUint(n, 10) }
