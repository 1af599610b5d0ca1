package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Lock holds a project's state: nobody else changes it until Unlock.
type Lock struct{ file *os.File }

// Hold takes the lock of the state at path. It doesn't wait: an error names
// the process that has it.
func Hold(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot lock state")
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot lock state")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.Name())
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Errorf("cannot lock state %s: another croft is at work on this project (process %s)", path, strings.TrimSpace(string(holder)))
		}
		return nil, errors.Wrapf(err, "cannot lock state %s", path)
	}
	// Who has it is for the message above only; the kernel's lock is what counts.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	}
	return &Lock{file: f}, nil
}

// Unlock gives the state back.
func (l *Lock) Unlock() error { return l.file.Close() }
