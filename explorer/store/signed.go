package store

import (
	"database/sql"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Writer is the key and the time of a signed write. The zero Writer is an unsigned one.
type Writer struct {
	Key string
	At  time.Time
}

// ReplayedError says that a key's signed write isn't newer than its last one.
type ReplayedError struct {
	// Last is the time of the key's newest write.
	Last time.Time
}

func (e *ReplayedError) Error() string {
	return "a signed write of this time or a later one was seen before"
}

// claim refuses a signed write that isn't newer than the key's last.
func (t *tx) claim(w Writer) error {
	if w.Key == "" {
		return nil
	}
	at := w.At.UnixNano()
	res, err := t.exec(`INSERT INTO writers (key, last) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET last = ?2 WHERE last < ?2`, w.Key, at)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var last int64
	if err := t.queryRow(`SELECT last FROM writers WHERE key = ?`, w.Key).Scan(&last); err != nil {
		return err
	}
	return &ReplayedError{Last: time.Unix(0, last)}
}

// neverSigned refuses an unsigned write for a node that has signed one before: a request, or a
// result of version 2, which has a birth.
func (t *tx) neverSigned(id string) error {
	var one int
	err := t.queryRow(`SELECT 1 FROM writers WHERE key = ?1 UNION ALL SELECT 1 FROM births WHERE node = ?1 LIMIT 1`, id).Scan(&one)
	if err == nil {
		return node.Errorf(node.Refused, "cannot change node %s: it signs what it writes, and this isn't signed", id)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
