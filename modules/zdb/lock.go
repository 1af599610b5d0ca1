package zdb

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// lockName is the file in the module's folder that is locked while it is open.
const lockName = "lock"

// lock keeps other modules from the folder. Busy when one has it.
func (c Config) lock() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(c.folder(), lockName), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock the zdb module's folder: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, node.Errorf(node.Busy, "cannot open the zdb module: another one has %s open", c.folder())
	}
	return file, nil
}

// unlock lets go of the lock by name: a child that was started just now shares
// the open file until it is another program.
func unlock(file *os.File) error {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	return file.Close()
}
