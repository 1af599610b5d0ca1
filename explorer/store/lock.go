package store

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// fileLock keeps a second explorer from the same database: each keeps the
// nodes' change numbers in memory. The kernel releases it when the process ends.
type fileLock struct{ file *os.File }

func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot lock the database")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, node.Errorf(node.Refused, "cannot lock the database: another explorer has %s (%w)", path, err)
	}
	return &fileLock{file: f}, nil
}

func (l *fileLock) release() error { return l.file.Close() }

func syncDir(path string) error { return syncFile(path) }

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
