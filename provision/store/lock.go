package store

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// lockName is the file that says who has the store open. Its name can't be a record's.
const lockName = "lock"

// lock holds a store for one process. The kernel lets go when the process ends, however it ends.
type lock struct {
	file *os.File
}

// lockFolder takes the store's lock, before anything in it is touched, and
// makes the folder when there is none. Busy when another holds it.
func lockFolder(root string, hook atomicfile.Hook) (*lock, error) {
	if err := atomicfile.MakeFolder(root, hook); err != nil {
		return nil, node.WithKind(node.Internal, err)
	}
	path := filepath.Join(root, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, node.WithKind(node.Internal, errors.Wrapf(err, "cannot lock store %s", root))
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder := readHolder(file)
		_ = file.Close()
		return nil, node.Errorf(node.Busy, "cannot open store %s: another process has it open%s", root, holder)
	}
	if err != nil {
		_ = file.Close()
		return nil, node.WithKind(node.Internal, errors.Wrapf(err, "cannot lock store %s", root))
	}
	// Who holds it is a courtesy: on a full disk the lock still holds.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &lock{file: file}, nil
}

func readHolder(file *os.File) string {
	b := make([]byte, 32)
	n, _ := file.ReadAt(b, 0)
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

func (l *lock) release() error {
	if l == nil {
		return nil
	}
	return errors.Wrap(l.file.Close(), "cannot unlock store")
}
