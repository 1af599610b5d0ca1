package store

import (
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// lockFile keeps a second explorer from the same database: each keeps the nodes' change numbers in
// memory. Busy when another has the lock.
func lockFile(path string) (*filelock.Lock, error) {
	lock, err := filelock.Try(path)
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot lock the database: another explorer has %s", path)
	}
	return lock, errors.Wrap(err, "cannot lock the database")
}

func syncDir(path string) error { return syncFile(path) }

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
