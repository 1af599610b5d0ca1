package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"net/url"
	"path/filepath"

	"github.com/pkg/errors"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed schema.sql
var schema string

// schemaVersion is the version of schema.sql.
const schemaVersion = "1"

// readers is the number of parallel reads.
const readers = 4

// openForWriting opens the file with one connection, creates missing tables, and makes its
// directory entry durable.
func openForWriting(ctx context.Context, path string) (*sql.DB, error) {
	db, err := connect(path, false)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	for _, prepare := range []func() error{
		func() error { return prepareSchema(ctx, db) },
		func() error { return indexOwners(ctx, db) },
		func() error { return syncDir(filepath.Dir(path)) },
	} {
		if err := prepare(); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return db, nil
}

func openForReading(path string) (*sql.DB, error) {
	db, err := connect(path, true)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db, nil
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
		return errors.Errorf("its schema is version %s, this explorer supports %s", version, schemaVersion)
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
