package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

//go:embed schema.sql
var schema string

// schemaVersion is of schema.sql.
const schemaVersion = "1"

// readers is how many reads run side by side.
const readers = 4

// Config is what a store needs.
type Config struct {
	// Path of the database file; made when it isn't there.
	Path string
	// Changed is called after a commit for each node with a new change, in
	// the order of commits, from one goroutine. It must not block.
	Changed func(nodeID string, head uint64)
	// Committed is called after each commit with the number of writes that
	// shared it, and how long it took. It may be nil.
	Committed func(writes int, took time.Duration)
	// MaxStored is how many bytes of reservations and results are kept (0:
	// DefaultStored).
	MaxStored int64
	// Now is the clock (nil: time.Now).
	Now func() time.Time
}

// Validate checks the configuration.
func (c Config) Validate() error {
	if c.Path == "" {
		return node.Errorf(node.Invalid, "cannot open the database: no path is given")
	}
	return nil
}

// Store is the open database. It is safe for many goroutines.
type Store struct {
	config Config
	lock   *fileLock
	read   *sql.DB
	writer *writer
	epoch  string
	stored *limit.Shares

	mu    sync.RWMutex
	heads map[string]uint64
	// looked is when all rows were looked through for what may be forgotten.
	looked time.Time
}

// Open opens the database, or makes it. Refused while another process has it open.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	lock, err := lockFile(c.Path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, lock: lock, heads: map[string]uint64{}, stored: c.storedLimit().Shares()}
	if err := s.open(ctx); err != nil {
		_ = s.closeFiles()
		return nil, errors.Wrapf(err, "cannot open the database %s", c.Path)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	write, err := connect(s.config.Path, false)
	if err != nil {
		return err
	}
	write.SetMaxOpenConns(1)
	if err := prepareSchema(ctx, write); err != nil {
		_ = write.Close()
		return err
	}
	if err := indexOwners(ctx, write); err != nil {
		_ = write.Close()
		return err
	}
	if err := syncDir(filepath.Dir(s.config.Path)); err != nil {
		_ = write.Close()
		return err
	}
	if s.writer, err = newWriter(ctx, write, s); err != nil {
		_ = write.Close()
		return err
	}
	if s.read, err = connect(s.config.Path, true); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return s.load(ctx)
}

// connect opens a pool of connections. Every commit reaches the disk before
// it returns (synchronous=FULL), so neither kill -9 nor a power cut loses it.
func connect(path string, readOnly bool) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "cache_size(-4000)"}}
	if readOnly {
		q.Set("mode", "ro")
	} else {
		q.Set("mode", "rwc")
		q.Add("_pragma", "journal_mode(WAL)")
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}
	return sql.Open("sqlite", u.String())
}

func prepareSchema(ctx context.Context, db *sql.DB) error {
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'meta'`).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		return create(ctx, db)
	}
	var version string
	if err := db.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = 'schema'`).Scan(&version); err != nil {
		return err
	}
	if version != schemaVersion {
		return errors.Errorf("its schema is version %s, this explorer knows %s", version, schemaVersion)
	}
	return nil
}

func create(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO meta (key, value) VALUES ('schema', ?), ('epoch', ?), ('next', 1)`, schemaVersion, newEpoch())
	if err != nil {
		return err
	}
	return tx.Commit()
}

func newEpoch() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// load reads what is kept in memory: the epoch and each node's newest change.
func (s *Store) load(ctx context.Context) error {
	if err := s.read.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = 'epoch'`).Scan(&s.epoch); err != nil {
		return err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT id, head FROM nodes`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var head uint64
		if err := rows.Scan(&id, &head); err != nil {
			return err
		}
		s.heads[id] = head
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.loadStored(ctx)
}

// Epoch names this database: random, made with it.
func (s *Store) Epoch() string { return s.epoch }

// Head is the node's newest change, without looking at the disk; false when
// the node isn't registered.
func (s *Store) Head(nodeID string) (uint64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	head, ok := s.heads[nodeID]
	return head, ok
}

// committed takes over what a commit changed and tells of it.
func (s *Store) committed(heads map[string]uint64) {
	s.mu.Lock()
	for id, head := range heads {
		s.heads[id] = head
	}
	s.mu.Unlock()
	if s.config.Changed == nil {
		return
	}
	for id, head := range heads {
		s.config.Changed(id, head)
	}
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	err := s.read.QueryRowContext(ctx, `SELECT 1 FROM meta LIMIT 1`).Scan(&one)
	return errors.Wrap(err, "cannot read the database")
}

// Close finishes the writes in hand and closes the files.
func (s *Store) Close() error {
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if s.read != nil {
		keep(s.read.Close())
	}
	if s.writer != nil {
		keep(s.writer.close())
	}
	keep(s.lock.release())
	return errors.Wrap(first, "cannot close the database")
}

// NewEpoch gives a closed database a new epoch and moves its reservation
// numbers on by skip: what its operator does after restoring a backup, since
// numbers and changes that were handed out after the backup are forgotten.
func NewEpoch(ctx context.Context, path string, skip uint64) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", errors.Wrap(err, "cannot give the database a new epoch")
	}
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return "", err
	}
	epoch := newEpoch()
	err = s.write(ctx, func(t *tx) error {
		t.next += skip
		_, err := t.exec(`UPDATE meta SET value = ? WHERE key = 'epoch'`, epoch)
		return err
	})
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return epoch, errors.Wrap(err, "cannot give the database a new epoch")
}

// Backup writes a consistent copy of the database at path to the new file
// destination, also while an explorer runs on it.
func Backup(ctx context.Context, path, destination string) error {
	db, err := connect(path, true)
	if err != nil {
		return errors.Wrapf(err, "cannot open the database %s", path)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, destination); err != nil {
		return errors.Wrapf(err, "cannot back up the database %s to %s", path, destination)
	}
	return errors.Wrapf(syncFile(destination), "cannot back up the database %s", path)
}

func formatNumber(n uint64) string { return strconv.FormatUint(n, 10) }
