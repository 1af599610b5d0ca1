package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pkg/errors"
)

// ownersIndex holds the workloads that nodes have reported as present, by user. It is
// created when the database is opened: databases of older explorers don't have it.
const ownersIndex = `CREATE INDEX IF NOT EXISTS reservations_owner ON reservations (user, node, expires) WHERE state = 'ok' AND NOT gone`

const owned = `SELECT 1 FROM reservations WHERE user = ? AND node = ? AND expires > ? AND state = 'ok' AND NOT gone`

func indexOwners(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, ownersIndex)
	return err
}

// Owns reports whether the user has a workload at the node: one that the node has reported
// as present and that hasn't expired at now.
func (s *Reservations) Owns(ctx context.Context, user, nodeID string, now time.Time) (bool, error) {
	var found bool
	err := s.read.QueryRowContext(ctx, `SELECT EXISTS (`+owned+`)`, user, nodeID, now.UnixNano()).Scan(&found)
	return found, errors.Wrap(err, "cannot look for a user's workloads")
}
