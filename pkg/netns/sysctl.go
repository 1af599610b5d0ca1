package netns

import (
	"bytes"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Sysctl sets one of the kernel's settings in the thread's namespace. A setting
// that this kernel doesn't have is left out.
func Sysctl(name, value string) error {
	err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o600)
	if err == nil || os.IsNotExist(err) {
		return nil
	}
	return node.Errorf(node.Internal, "cannot set %s to %s: %w", name, value, err)
}

// SysctlIs reports whether one of the kernel's settings in the thread's namespace has that value, of at most 31 bytes; of one that this kernel doesn't have
// it says so too. It makes hardly any garbage.
func SysctlIs(name, value string) (bool, error) {
	fd, err := unix.Open("/proc/sys/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if err != nil {
		return false, node.Errorf(node.Internal, "cannot read %s: %w", name, err)
	}
	defer unix.Close(fd)
	var buffer [32]byte
	n, err := unix.Read(fd, buffer[:])
	if err != nil {
		return false, node.Errorf(node.Internal, "cannot read %s: %w", name, err)
	}
	return string(bytes.TrimSpace(buffer[:n])) == value, nil
}
