package broker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// maxSocketPath leaves room in the kernel's 107 bytes for the private folder
// in which the socket is made.
const maxSocketPath = 90

// socket is a listening unix socket and the lock that keeps a second process
// from taking its place.
type socket struct {
	listener net.Listener
	path     string
	self     os.FileInfo
	lock     *filelock.Lock
}

func listenSocket(path string) (_ *socket, err error) {
	if len(path) > maxSocketPath {
		return nil, node.Errorf(node.Invalid, "cannot listen on %s: a socket's path has at most %d bytes", path, maxSocketPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Wrapf(err, "cannot listen on %s", path)
	}
	s := &socket{path: path}
	if s.lock, err = lockSocket(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.lock.Release()
		}
	}()
	if err := checkStale(path); err != nil {
		return nil, err
	}
	// A socket gets its mode only after it was made. In a folder that nobody
	// else can enter it isn't reachable before; the move also replaces a stale
	// socket in one step.
	private, err := os.MkdirTemp(dir, ".bus")
	if err != nil {
		return nil, errors.Wrapf(err, "cannot listen on %s", path)
	}
	defer func() { _ = os.RemoveAll(private) }()
	if s.listener, err = bindSocket(filepath.Join(private, "s"), path); err != nil {
		return nil, err
	}
	if s.self, err = os.Lstat(path); err != nil {
		_ = s.listener.Close()
		return nil, errors.Wrapf(err, "cannot listen on %s", path)
	}
	return s, nil
}

func bindSocket(at, path string) (net.Listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, errors.Wrapf(err, "cannot listen on %s", path)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(at, 0o600); err == nil {
		err = os.Rename(at, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, errors.Wrapf(err, "cannot listen on %s", path)
	}
	return l, nil
}

// lockSocket locks path for this process.
func lockSocket(path string) (*filelock.Lock, error) {
	lock, err := filelock.Try(path + ".lock")
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Refused, "cannot listen on %s: another process serves it", path)
	}
	return lock, errors.Wrapf(err, "cannot lock the socket %s", path)
}

// checkStale accepts a free path, or a socket that nobody serves.
func checkStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Wrapf(err, "cannot listen on %s", path)
	}
	if info.Mode().Type() != os.ModeSocket {
		return node.Errorf(node.Exist, "cannot listen on %s: there is a %s, not a socket, and it isn't touched", path, info.Mode())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return node.Errorf(node.Refused, "cannot listen on %s: another process serves it", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) {
		return node.Errorf(node.Refused, "cannot listen on %s: it may be served: %w", path, err)
	}
	return nil
}

// close removes the socket unless another process has replaced it.
func (s *socket) close() error {
	err := s.listener.Close()
	if now, lerr := os.Lstat(s.path); lerr == nil && os.SameFile(now, s.self) {
		if rerr := os.Remove(s.path); err == nil {
			err = rerr
		}
	}
	_ = s.lock.Release()
	return err
}
