package storage

import (
	stderrors "errors"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// lockFile is held while a module runs.
const lockFile = "storage.lock"

// ErrInUse says that a module has the state open: the node runs.
var ErrInUse = stderrors.New("in use by another storage module")

// lock keeps a second module off the same state. The kernel lets go of it
// whatever the holder dies of.
func (c Config) lock() (*os.File, error) {
	if err := os.MkdirAll(c.poolsDir(), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of pools")
	}
	f, err := os.OpenFile(filepath.Join(c.State, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot lock storage")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, node.Errorf(node.Busy, "cannot lock storage: %s is %w", c.State, ErrInUse)
	}
	return f, nil
}
