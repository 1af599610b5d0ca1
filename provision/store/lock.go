package store

import (
	"fmt"
	"path/filepath"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// lockName is the file that is locked while a process has the store open. Its name
// can't be a record's.
const lockName = "lock"

// lockFolder takes the store's lock, before anything in it is touched, and
// makes the folder when there is none. Busy when another process holds it.
func lockFolder(root string, hook atomicfile.Hook) (*filelock.Lock, error) {
	if err := atomicfile.MakeFolder(root, hook); err != nil {
		return nil, node.WithKind(node.Internal, err)
	}
	lock, err := filelock.Try(filepath.Join(root, lockName))
	if held := filelock.Held(err); held != nil {
		holder := ""
		if held.PID != 0 {
			holder = fmt.Sprintf(" (process %d)", held.PID)
		}
		return nil, node.Errorf(node.Busy, "cannot open store %s: another process has it open%s", root, holder)
	}
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock store %s: %w", root, err)
	}
	lock.WritePID()
	return lock, nil
}

// release releases the store's lock; a store that no other process can reach has none (nil).
func release(lock *filelock.Lock) error {
	if lock == nil {
		return nil
	}
	return lock.Release()
}
