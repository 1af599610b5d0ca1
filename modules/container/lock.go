package container

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// lockName is the file in RunDir that is locked while a module is open on it.
const lockName = "container.lock"

// lock keeps others from the containers of RunDir. Busy when somebody has it.
func (c Config) lock() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(c.RunDir, lockName), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock the containers: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, node.Errorf(node.Busy, "cannot use the containers of %s: a container module is running on them", c.RunDir)
	}
	return file, nil
}

// unlock lets go of the lock by name: a child that was started just now shares
// the open file until it is another program.
func unlock(file *os.File) error {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	return file.Close()
}
