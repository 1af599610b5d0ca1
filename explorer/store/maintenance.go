package store

import (
	"context"
	"os"

	"github.com/pkg/errors"
)

// NewEpoch gives a closed database a new epoch and raises its next reservation number by skip. The
// operator calls it after restoring a backup, since the database has forgotten the numbers and
// changes that were assigned after the backup.
func NewEpoch(ctx context.Context, path string, skip uint64) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", errors.Wrap(err, "cannot give the database a new epoch")
	}
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return "", err
	}
	epoch := newEpoch()
	err = s.writer.write(ctx, func(t *tx) error {
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
