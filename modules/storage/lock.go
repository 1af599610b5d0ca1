package storage

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// lockFile is held while a module runs.
const lockFile = "storage.lock"

// ErrInUse says that a module has the state open: the node runs.
var ErrInUse = errors.New("in use by another storage module")

// lock keeps a second module off the same state.
func (c Config) lock() (*filelock.Lock, error) {
	if err := os.MkdirAll(c.poolsDir(), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of pools")
	}
	lock, err := filelock.Try(filepath.Join(c.State, lockFile))
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot lock storage: %s is %w", c.State, ErrInUse)
	}
	return lock, errors.Wrap(err, "cannot lock storage")
}
