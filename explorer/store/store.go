package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

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

// Store is the open database: one part for each table and its rules. All parts are safe
// for many goroutines; they share one writer.
type Store struct {
	Farms        *Farms
	Nodes        *Nodes
	Reservations *Reservations
	Results      *Results

	lock   *filelock.Lock
	read   *sql.DB
	writer *writer
	epoch  string
}

// Open opens the database, or makes it. Busy while another process has it open.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	lock, err := lockFile(c.Path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock}
	if err := s.open(ctx, c); err != nil {
		_ = s.Close()
		return nil, errors.Wrapf(err, "cannot open the database %s", c.Path)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, c Config) error {
	db, err := openForWriting(ctx, c.Path)
	if err != nil {
		return err
	}
	heads := newHeads(c.Changed)
	if s.writer, err = newWriter(ctx, db, heads, c.Committed); err != nil {
		_ = db.Close()
		return err
	}
	if s.read, err = openForReading(c.Path); err != nil {
		return err
	}
	if err := s.read.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = 'epoch'`).Scan(&s.epoch); err != nil {
		return err
	}
	if err := heads.load(ctx, s.read); err != nil {
		return err
	}
	shares := c.storedLimit().Shares()
	if err := loadStored(ctx, s.read, shares); err != nil {
		return err
	}
	free := freeDisk{path: c.Path}
	s.Farms = &Farms{read: s.read, writer: s.writer, disk: free}
	s.Nodes = &Nodes{read: s.read, writer: s.writer, disk: free, heads: heads}
	s.Reservations = &Reservations{read: s.read, writer: s.writer, room: &room{disk: free, shares: shares, writer: s.writer, now: c.Now}}
	s.Results = &Results{writer: s.writer, shares: shares}
	return nil
}

// Epoch is the random name of this database, made with it.
func (s *Store) Epoch() string { return s.epoch }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	err := s.read.QueryRowContext(ctx, `SELECT 1 FROM meta LIMIT 1`).Scan(&one)
	return errors.Wrap(err, "cannot read the database")
}

// Close finishes the writes in hand and closes the files.
func (s *Store) Close() error {
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
	keep(s.lock.Release())
	return errors.Wrap(first, "cannot close the database")
}
