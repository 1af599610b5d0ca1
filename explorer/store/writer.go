package store

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/pkg/errors"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/croft-edge/croft/pkg/node"
)

// maxBatch is the largest number of writes that share one commit; it bounds the wait of the first.
const maxBatch = 256

// writer is the one goroutine that changes the database. Writes that arrive during a commit share
// the next one.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	// prepared holds one statement for each SQL text of this package.
	prepared map[string]*sql.Stmt
	heads    *heads
	// committed is Config.Committed; it may be nil.
	committed func(writes int, took time.Duration)
	jobs      chan job

	stopping chan struct{}
	stop     sync.Once
	stopped  chan struct{}
}

type job struct {
	do   func(*tx) error
	done chan error
}

func newWriter(ctx context.Context, db *sql.DB, h *heads, committed func(int, time.Duration)) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{
		db: db, conn: conn, heads: h, committed: committed, prepared: map[string]*sql.Stmt{}, jobs: make(chan job, maxBatch),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	go w.run()
	return w, nil
}

// write runs do in a transaction, perhaps shared with others, and returns once its effect is
// durable. An error of do undoes do alone.
func (w *writer) write(ctx context.Context, do func(*tx) error) error {
	j := job{do: do, done: make(chan error, 1)}
	select {
	case w.jobs <- j:
	case <-w.stopping:
		return node.Errorf(node.Transient, "cannot write: the database is closing")
	case <-ctx.Done():
		return node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot write"))
	}
	select {
	case err := <-j.done:
		return err
	case <-w.stopped:
	}
	select {
	case err := <-j.done:
		return err
	default:
		return node.Errorf(node.Transient, "cannot write: the database is closed")
	}
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case j := <-w.jobs:
			w.commit(w.gather(j))
		case <-w.stopping:
			return
		}
	}
}

// gather adds the other waiting jobs to the batch.
func (w *writer) gather(first job) []job {
	batch := append(make([]job, 0, 16), first)
	for len(batch) < maxBatch {
		select {
		case j := <-w.jobs:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit runs the batch in one transaction and answers each of its jobs.
func (w *writer) commit(batch []job) {
	start := time.Now()
	results, heads, err := w.transact(batch)
	if err != nil {
		err = classify(err)
		for _, j := range batch {
			j.done <- err
		}
		return
	}
	if w.committed != nil {
		w.committed(len(batch), time.Since(start))
	}
	w.heads.committed(heads)
	for i, j := range batch {
		j.done <- results[i]
	}
}

func (w *writer) transact(batch []job) (results []error, heads map[string]uint64, err error) {
	ctx := context.Background()
	if _, err := w.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_, _ = w.exec(ctx, `ROLLBACK`)
		}
	}()
	heads = map[string]uint64{}
	var first uint64
	if err := w.queryRow(ctx, `SELECT value FROM meta WHERE key = 'next'`).Scan(&first); err != nil {
		return nil, nil, err
	}
	next := first
	for _, j := range batch {
		var failed error
		if next, failed, err = w.runJob(ctx, j, next, heads); err != nil {
			return nil, nil, err
		}
		results = append(results, failed)
	}
	if err := w.flush(ctx, first, next, heads); err != nil {
		return nil, nil, err
	}
	if _, err := w.exec(ctx, `COMMIT`); err != nil {
		return nil, nil, err
	}
	return results, heads, nil
}

// runJob runs one write inside a savepoint. failed is the write's own error; err breaks the whole
// transaction.
func (w *writer) runJob(ctx context.Context, j job, next uint64, heads map[string]uint64) (after uint64, failed, err error) {
	if _, err := w.exec(ctx, `SAVEPOINT write`); err != nil {
		return 0, nil, err
	}
	t := &tx{w: w, next: next, heads: map[string]uint64{}, known: func(id string) (uint64, bool) {
		if head, ok := heads[id]; ok {
			return head, true
		}
		return w.heads.head(id)
	}}
	if failed = j.do(t); failed != nil {
		if fatal(failed) {
			return 0, nil, failed
		}
		if _, err := w.exec(ctx, `ROLLBACK TO write`); err != nil {
			return 0, nil, err
		}
	}
	if _, err := w.exec(ctx, `RELEASE write`); err != nil {
		return 0, nil, err
	}
	if failed != nil {
		return next, failed, nil
	}
	for id, head := range t.heads {
		heads[id] = head
	}
	return t.next, nil, nil
}

// flush stores the numbers that the batch assigned.
func (w *writer) flush(ctx context.Context, first, next uint64, heads map[string]uint64) error {
	if next != first {
		if _, err := w.exec(ctx, `UPDATE meta SET value = ? WHERE key = 'next'`, next); err != nil {
			return err
		}
	}
	for id, head := range heads {
		if _, err := w.exec(ctx, `UPDATE nodes SET head = ? WHERE id = ?`, head, id); err != nil {
			return err
		}
	}
	return nil
}

// fatal reports whether an error came from SQLite itself, which may have
// ended the transaction.
func fatal(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e)
}

// classify gives SQLite's failures their kind.
func classify(err error) error {
	kind := node.Transient
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL {
		kind = node.NoSpace
	}
	return node.WithKind(kind, errors.Wrap(err, "cannot write to the database"))
}

func (w *writer) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if st, ok := w.prepared[text]; ok {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, text)
	if err == nil {
		w.prepared[text] = st
	}
	return st, err
}

func (w *writer) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	st, err := w.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// row is the result of queryRow; it holds an error of preparing the statement until Scan.
type row struct {
	row *sql.Row
	err error
}

func (r row) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(into...)
}

func (w *writer) queryRow(ctx context.Context, text string, args ...any) row {
	st, err := w.statement(ctx, text)
	if err != nil {
		return row{err: err}
	}
	return row{row: st.QueryRowContext(ctx, args...)}
}

func (w *writer) close() error {
	w.stop.Do(func() { close(w.stopping) })
	<-w.stopped
	for _, st := range w.prepared {
		_ = st.Close()
	}
	_ = w.conn.Close()
	return w.db.Close()
}
