package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pkg/errors"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// Row is a reservation in its present state.
type Row struct {
	wire.Reservation
	N      uint64
	Change uint64
	// Gone: the node has reported that nothing of the workload is left.
	Gone bool
	// Size is the length of its body and result, in bytes.
	Size int
}

const columns = `n, change, to_delete, gone, deletion, renewal, result, body`

func scanRow(from scanner) (Row, error) {
	var out Row
	var deletion, renewal, result, body []byte
	var toDelete bool
	if err := from.Scan(&out.N, &out.Change, &toDelete, &out.Gone, &deletion, &renewal, &result, &body); err != nil {
		return Row{}, err
	}
	out.Size = len(body) + len(result)
	document, err := workload.Decode(body)
	if err != nil {
		return Row{}, err
	}
	out.Reservation.Reservation = *document
	out.ID = workload.ID{N: out.N, M: 1}.String()
	out.ToDelete = toDelete
	return out, out.readAnswers(deletion, renewal, result)
}

// readAnswers reads the deletion, the renewal and the result; nil for those that are missing.
func (r *Row) readAnswers(deletion, renewal, result []byte) (err error) {
	if deletion != nil {
		if r.Deletion, err = workload.DecodeDeletion(deletion); err != nil {
			return err
		}
	}
	if renewal != nil {
		if r.Renewal, err = workload.DecodeRenewal(renewal); err != nil {
			return err
		}
	}
	if result != nil {
		r.Result, err = workload.DecodeResult(result)
	}
	return err
}

// Get returns one reservation. NotExist when there is none.
func (s *Reservations) Get(ctx context.Context, n uint64) (Row, error) {
	out, err := scanRow(s.read.QueryRowContext(ctx, `SELECT `+columns+` FROM reservations WHERE n = ?`, int64(n)))
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, noReservation(n, err)
	}
	return out, errors.Wrapf(err, "cannot read reservation %s-1", formatNumber(n))
}

// Bound is how much one answer holds at most; one reservation always fits.
type Bound struct {
	Rows  int
	Bytes int
}

// Changes returns the node's changes after that change number, in the order of changes. It leaves
// out reservations that need no more of the node: they have expired at now, and the node's last
// result says that the workload isn't there. more says that the bound cut the answer short.
func (s *Reservations) Changes(ctx context.Context, nodeID string, after uint64, now time.Time, b Bound) (out []Row, more bool, err error) {
	return s.rows(ctx, b, `SELECT `+columns+` FROM reservations WHERE node = ? AND change > ?
		AND NOT (expires < ? AND state NOT IN ('', 'ok')) ORDER BY change LIMIT ?`, nodeID, after, now.UnixNano(), b.Rows+1)
}

// FromQuery is the seed's poll.
type FromQuery struct {
	Node string
	From uint64
	// Next is the first number that wasn't returned yet.
	Next uint64
	Now  time.Time
}

// From is the seed's selection, by number. Where from is 0: everything. Else: reservations from
// that number on that haven't expired, and those to be deleted that aren't gone. more says that the
// bound cut the answer short.
func (s *Reservations) From(ctx context.Context, q FromQuery, b Bound) (out []Row, more bool, err error) {
	from, next := q.From, q.Next
	if from == 0 {
		return s.rows(ctx, b, `SELECT `+columns+` FROM reservations WHERE node = ? AND n >= ? ORDER BY n LIMIT ?`, q.Node, int64(next), b.Rows+1)
	}
	first := int64(from)
	if first < 0 { // beyond the largest number
		first = 1<<63 - 1
	}
	return s.rows(ctx, b, `SELECT `+columns+` FROM reservations WHERE node = ?1 AND n >= ?2 AND expires > ?3 AND n >= ?5
		UNION ALL SELECT `+columns+` FROM reservations WHERE node = ?1 AND (n < ?2 OR expires <= ?3) AND to_delete AND NOT gone AND n >= ?5
		ORDER BY n LIMIT ?4`, q.Node, first, q.Now.UnixNano(), b.Rows+1, int64(next))
}

// OfUser returns the user's reservations whose number is greater than after.
func (s *Reservations) OfUser(ctx context.Context, user string, after uint64, b Bound) (out []Row, more bool, err error) {
	return s.rows(ctx, b, `SELECT `+columns+` FROM reservations WHERE user = ? AND n > ? ORDER BY n LIMIT ?`, user, int64(after), b.Rows+1)
}

func (s *Reservations) rows(ctx context.Context, b Bound, query string, args ...any) (out []Row, more bool, err error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, false, errors.Wrap(err, "cannot list reservations")
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		r, err := scanRow(rows)
		if err != nil {
			return nil, false, errors.Wrap(err, "cannot list reservations")
		}
		size += r.Size
		if len(out) > 0 && (len(out) >= b.Rows || size > b.Bytes) {
			return out, true, nil
		}
		out = append(out, r)
	}
	return out, false, errors.Wrap(rows.Err(), "cannot list reservations")
}
