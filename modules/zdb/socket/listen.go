package socket

import (
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// longest is the longest path that the kernel takes.
const longest = 107

// backlog is how many connections wait to be accepted; the kernel lowers it.
const backlog = 4096

// Listener is a listening unix stream socket and its path.
type Listener struct {
	*net.UnixListener
	path string
	// device and inode tell its file from another's at the same path.
	device, inode uint64
}

// Listen makes a listening unix stream socket at path, with that mode. It replaces a
// present file atomically, once it can be connected to.
func Listen(path string, mode fs.FileMode) (*Listener, error) {
	l, err := listen(path, mode)
	return l, errors.Wrapf(err, "cannot listen on %s", path)
}

func listen(path string, mode fs.FileMode) (*Listener, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // the listener has one of its own
	stat, err := place(dir, fd, path, mode)
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	return &Listener{UnixListener: listener, path: path, device: stat.Dev, inode: stat.Ino}, nil
}

// place binds the socket under a temporary name, and renames it once it is ready.
func place(dir, fd int, path string, mode fs.FileMode) (stat unix.Stat_t, err error) {
	var random [6]byte
	_, _ = rand.Read(random[:])
	temporary := ".new-" + hex.EncodeToString(random[:])
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: short(dir, filepath.Join(filepath.Dir(path), temporary))}); err != nil {
		return stat, err
	}
	if err = unix.Fchmodat(dir, temporary, uint32(mode.Perm()), 0); err == nil {
		err = unix.Fstatat(dir, temporary, &stat, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, filepath.Base(path))
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temporary, 0)
	}
	return stat, err
}

// short is a path that the kernel takes for one in the folder dir.
func short(dir int, path string) string {
	if len(path) <= longest {
		return path
	}
	return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path)
}

// Close ends it, and removes its file unless another process has replaced that.
func (l *Listener) Close() error {
	err := l.remove()
	if closeErr := l.UnixListener.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (l *Listener) remove() error {
	var stat unix.Stat_t
	err := unix.Lstat(l.path, &stat)
	if err == nil && stat.Dev == l.device && stat.Ino == l.inode {
		err = unix.Unlink(l.path)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return errors.Wrapf(err, "cannot remove the socket %s", l.path)
}

func openFolder(path string) (int, error) {
	return unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
