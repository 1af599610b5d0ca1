package carrier

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// maxConnections bounds what a client that went wild can hold.
	maxConnections = 32
	// lineTime is how long a client may take to say what it wants, and to
	// listen to the answer.
	lineTime = 10 * time.Second
)

// control answers on the socket.
type control struct {
	listener *net.UnixListener
	do       func(ctx context.Context, r request) (response, error)
	log      zerolog.Logger
}

// listen opens the socket with mode 0600 in a folder of 0700. The lock is
// held, so a socket that is there is a dead one's.
func listen(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, errors.Wrap(err, "cannot open the carrier's socket")
	}
	private := filepath.Join(filepath.Dir(path), ".socket")
	_ = os.Remove(private)
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", private)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open the carrier's socket")
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(private, 0o600); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, errors.Wrap(err, "cannot open the carrier's socket")
	}
	return listener, nil
}

// run answers until ctx is done, and what is being done is done.
func (c *control) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxConnections)
	for {
		conn, err := c.listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.Wrap(err, "cannot serve the carrier's socket")
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return nil
		}
		wg.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			c.serve(ctx, conn)
		})
	}
}

// serve answers one connection. Nothing that comes on it ends the process.
func (c *control) serve(ctx context.Context, conn *net.UnixConn) {
	if !sameUser(conn) {
		return
	}
	unblock := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer unblock()
	_ = conn.SetDeadline(time.Now().Add(lineTime))
	line, err := readLine(conn, maxRequest)
	if len(line) == 0 && err != nil {
		c.log.Debug().Err(err).Msg("a client said nothing")
		return
	}
	answer, err := c.answer(ctx, line)
	answer.Version = protocol
	if err != nil {
		answer.Error = &failure{Kind: node.KindOf(err), Message: err.Error()}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(lineTime))
	if err := json.NewEncoder(conn).Encode(answer); err != nil {
		c.log.Debug().Err(err).Msg("a client went away")
	}
}

// answer does what a line asks for.
func (c *control) answer(ctx context.Context, line []byte) (answer response, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.log.Error().Interface("cause", cause).Bytes("stack", debug.Stack()).Msg("panic")
			err = node.Errorf(node.Internal, "cannot answer: panic: %v", cause)
		}
	}()
	r, err := parseRequest(line)
	if err != nil {
		return response{}, err
	}
	return c.do(ctx, r)
}

// sameUser reports whether the client is of the user of this process.
func sameUser(conn *net.UnixConn) bool {
	cred, err := peer(conn)
	return err == nil && int(cred.Uid) == os.Geteuid()
}

// peer is who is at the other end: for a client, who opened the socket.
func peer(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return nil, cerr
	}
	return cred, err
}
