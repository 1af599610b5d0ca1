package state

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/filelock"
)

// Lock holds a project's state: nobody else changes it until Unlock.
type Lock struct{ file *filelock.Lock }

// Hold takes the lock of the state at path. It doesn't wait: an error names
// the process that has it.
func Hold(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot lock state")
	}
	lock, err := filelock.Try(path + ".lock")
	if held := filelock.Held(err); held != nil {
		process := "unknown"
		if held.PID != 0 {
			process = fmt.Sprint(held.PID)
		}
		return nil, errors.Errorf("cannot lock state %s: another croft is at work on this project (process %s)", path, process)
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot lock state")
	}
	lock.WritePID()
	return &Lock{file: lock}, nil
}

// Unlock gives the state back.
func (l *Lock) Unlock() error { return l.file.Release() }
