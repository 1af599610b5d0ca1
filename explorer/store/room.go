package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Reservations that have ended may be forgotten where their user, or all users together, have no
// room left; those whose end no node has reported, after unheard.
const (
	unheard     = 30 * 24 * time.Hour
	forgetBatch = 256
	// forgetEvery is the interval between searches through all users' rows.
	forgetEvery = time.Minute
)

// storedLimit is stored with the operator's total, an eighth of which is kept for results.
func (c Config) storedLimit() limit.Limit {
	l := stored
	if c.MaxStored > 0 {
		l.Total, l.Kept = c.MaxStored, c.MaxStored/8
		l.Each = min(l.Each, l.Total)
	}
	return l
}

// loadStored counts the sizes in the database.
func loadStored(ctx context.Context, db *sql.DB, shares *limit.Shares) error {
	for query, hold := range map[string]func(string, int64){
		`SELECT user, sum(length(body) + 1024) FROM reservations GROUP BY user`:                     shares.Hold,
		`SELECT node, sum(length(result)) FROM reservations WHERE result IS NOT NULL GROUP BY node`: shares.HoldKnown,
	} {
		if err := loadSums(ctx, db, query, hold); err != nil {
			return err
		}
	}
	return nil
}

func loadSums(ctx context.Context, db *sql.DB, query string, hold func(string, int64)) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			return err
		}
		hold(key, n)
	}
	return rows.Err()
}

// freeDisk watches the free space of the database's disk.
type freeDisk struct {
	// path of the database file.
	path string
}

// check refuses new data where the disk is nearly full. NoSpace.
func (d freeDisk) check() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(d.path), &fs); err != nil {
		return errors.Wrap(err, "cannot read the free space of the disk")
	}
	size, free := int64(fs.Blocks)*int64(fs.Bsize), int64(fs.Bavail)*int64(fs.Bsize)
	if kept := min(disk.Kept, size/10); free < kept {
		disk.Reached()
		return node.Errorf(node.NoSpace, "cannot take in anything new: the explorer's disk is full; try again later")
	}
	return nil
}

// room assigns space to pushes, and frees it by forgetting reservations that have ended.
type room struct {
	disk   freeDisk
	shares *limit.Shares
	writer *writer
	now    func() time.Time

	mu sync.Mutex
	// searched is the time of the last search through all users' reservations.
	searched time.Time
}

// take reserves room for a user's push. Where there is none, this user's ended reservations are
// forgotten, or everybody's. NoSpace.
func (r *room) take(ctx context.Context, user string, size int64) (give func(), err error) {
	if err := r.disk.check(); err != nil {
		return nil, err
	}
	if give, err = r.shares.Take(user, size); err == nil {
		return give, nil
	}
	var full *limit.Full
	if !errors.As(err, &full) {
		return nil, err
	}
	whose := user
	if full.All {
		whose = ""
	}
	for {
		n, ferr := r.forget(ctx, whose)
		if ferr != nil {
			return nil, ferr
		}
		if give, err = r.shares.Take(user, size); err == nil {
			return give, nil
		}
		if n == 0 {
			return nil, node.Errorf(node.NoSpace, "cannot keep this reservation: %w; delete reservations that aren't needed: they make room once they have ended and expired", err)
		}
	}
}

// forgotten is a row that was deleted.
type forgotten struct {
	n            uint64
	user, node   string
	body, result int64
}

// forget deletes some of a user's reservations that have ended, or of all users' where user is
// empty, and returns how many. Only reservations past their signed end are deleted: nobody can push
// them again.
func (r *room) forget(ctx context.Context, user string) (int, error) {
	now := r.now()
	if user == "" && !r.maySearch(now) {
		return 0, nil
	}
	var gone []forgotten
	err := r.writer.write(ctx, func(t *tx) error {
		var err error
		if gone, err = ended(ctx, t, user, now); err != nil {
			return err
		}
		for _, f := range gone {
			if _, err := t.exec(`DELETE FROM reservations WHERE n = ?`, f.n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, f := range gone {
		r.shares.Hold(f.user, -f.body-rowBytes)
		r.shares.HoldKnown(f.node, -f.result)
	}
	return len(gone), nil
}

// maySearch reports whether it is time to search through all users' reservations again.
func (r *room) maySearch(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.searched) < forgetEvery {
		return false
	}
	r.searched = now
	return true
}

// ended lists reservations that may be forgotten.
func ended(ctx context.Context, t *tx, user string, now time.Time) ([]forgotten, error) {
	rows, err := t.query(ctx, `SELECT n, user, node, length(body), coalesce(length(result), 0) FROM reservations
		WHERE (?1 = '' OR user = ?1) AND expires < ?2 AND (gone OR state NOT IN ('', 'ok') OR expires < ?3) ORDER BY n LIMIT ?4`,
		user, now.UnixNano(), now.Add(-unheard).UnixNano(), forgetBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []forgotten
	for rows.Next() {
		var f forgotten
		if err := rows.Scan(&f.n, &f.user, &f.node, &f.body, &f.result); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, rows.Err()
}
