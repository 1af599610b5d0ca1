package socket

import (
	"context"
	"net"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Dial connects to the unix stream socket at path, which must be one itself: a
// link isn't followed. It fails at once where nobody listens (ECONNREFUSED) or
// nothing is (ENOENT).
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	conn, err := dial(ctx, path)
	return conn, errors.Wrapf(err, "cannot connect to %s", path)
}

func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, filepath.Base(path), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("it isn't a socket")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if err != nil {
		return nil, cause(err) // its text has the other path
	}
	return conn.(*net.UnixConn), nil
}

// cause is a network error's cause, without the addresses.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
