// Package privatesocket opens Unix sockets for the machine's operator alone: mode 0600 from the
// first moment on, peers that are root or the process's own user, and a bounded number of connections.
package privatesocket

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// ErrServed is the cause when another process serves the socket.
var ErrServed = errors.New("another process serves it")

// probeTimeout bounds the question whether another process serves the socket.
const probeTimeout = time.Second

// Config describes a socket.
type Config struct {
	Path string
	// Connections is the most that are open at a time; the listener closes others at once. 0 is no bound.
	Connections int
	// Log gets a line when a peer is refused, at most one a minute.
	Log zerolog.Logger
}

// Listener accepts the connections of a private socket. Closing it removes the socket's file.
type Listener struct {
	*net.UnixListener
	config Config
	file   os.FileInfo
	open   atomic.Int64
	closed sync.Once
	log    zerolog.Logger
}

// Listen opens the socket, and makes its folder (0755) when there is none. It replaces a socket that
// no process serves; one that is served is an error with cause ErrServed, and so is a file of another kind.
func Listen(ctx context.Context, config Config) (*Listener, error) {
	l, err := listen(ctx, config)
	return l, errors.Wrapf(err, "cannot open the socket %s", config.Path)
}

func listen(ctx context.Context, config Config) (*Listener, error) {
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o755); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, config.Path); err != nil {
		return nil, err
	}
	inner, err := bind(ctx, config.Path)
	if err != nil {
		return nil, err
	}
	file, err := os.Lstat(config.Path)
	if err != nil {
		_ = inner.Close()
		return nil, err
	}
	return &Listener{
		UnixListener: inner, config: config, file: file,
		log: config.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}),
	}, nil
}

// removeStale removes a socket that nobody serves.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("there is a file that isn't a socket; remove it or name another path")
	}
	if conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return ErrServed
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// bind makes the socket in a folder that only its owner may enter and then moves it, so that
// it is never accessible to others, not even for a moment.
func bind(ctx context.Context, path string) (*net.UnixListener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".socket-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	inner, err := (&net.ListenConfig{}).Listen(ctx, "unix", private)
	if err != nil {
		return nil, err
	}
	listener := inner.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(private, 0o600); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// Accept returns the next connection of an allowed peer.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if why := l.refuse(raw); why != nil {
			// Who is refused finds the reason in the log.
			l.log.Warn().Err(why).Str("socket", l.config.Path).Msg("a connection is refused")
			_ = raw.Close()
			continue
		}
		return &conn{UnixConn: raw, listener: l}, nil
	}
}

// refuse is why a connection is refused; nil takes a place for it.
func (l *Listener) refuse(raw *net.UnixConn) error {
	uid, err := peer(raw)
	if err != nil {
		return errors.Wrap(err, "cannot find out who connects")
	}
	if uid != 0 && int(uid) != os.Geteuid() {
		return errors.Errorf("cannot serve user ID %d: only root and user ID %d may connect", uid, os.Geteuid())
	}
	if open := l.open.Add(1); l.config.Connections > 0 && open > int64(l.config.Connections) {
		l.open.Add(-1)
		return errors.Errorf("cannot serve more than %d connections at a time", l.config.Connections)
	}
	return nil
}

// peer is the user ID of the process that connected.
func peer(raw *net.UnixConn) (uint32, error) {
	sys, err := raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var asked error
	if err := sys.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if asked != nil {
		return 0, asked
	}
	return cred.Uid, nil
}

// Close stops listening, and removes the socket's file unless another process has replaced it.
func (l *Listener) Close() error {
	l.closed.Do(func() {
		if now, err := os.Lstat(l.config.Path); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(l.config.Path)
		}
	})
	return l.UnixListener.Close()
}

// conn gives its place back when it is closed.
type conn struct {
	*net.UnixConn
	listener *Listener
	closed   sync.Once
}

func (c *conn) Close() error {
	c.closed.Do(func() { c.listener.open.Add(-1) })
	return c.UnixConn.Close()
}
