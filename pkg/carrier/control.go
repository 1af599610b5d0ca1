package carrier

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// MaxConnections bounds what a client that went wild can hold.
	MaxConnections = 32
	// lineTime is how long a client may take to say what it wants, and to
	// listen to the answer.
	lineTime = 10 * time.Second
)

// Control answers on the socket.
type Control struct {
	Listener *net.UnixListener
	// MaxRequest is the longest line in bytes.
	MaxRequest int64
	// Answer is what a line is answered with, as one line of JSON. See Guard.
	Answer func(ctx context.Context, line []byte) any
	Log    zerolog.Logger
}

// Guard turns a panic of f into an error: nothing that a client asks for ends
// the process.
func Guard[T any](log zerolog.Logger, f func() (T, error)) (out T, err error) {
	err = supervise.Guard(log, "carrier", func() (err error) {
		out, err = f()
		return err
	})
	return out, err
}

// Listen opens the socket with mode 0600 in a folder of 0700. The lock is
// held, so a socket that is there is a dead one's.
func Listen(ctx context.Context, path string) (*net.UnixListener, error) {
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

// Run answers until ctx is done, and what is being done is done.
func (c *Control) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Listener.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, MaxConnections)
	for {
		conn, err := c.Listener.AcceptUnix()
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
			supervise.Do(c.Log, "carrier", func() { c.serve(ctx, conn) })
		})
	}
}

// serve answers one connection. Nothing that comes on it ends the process.
func (c *Control) serve(ctx context.Context, conn *net.UnixConn) {
	if !sameUser(conn) {
		return
	}
	unblock := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer unblock()
	_ = conn.SetDeadline(time.Now().Add(lineTime))
	line, err := ReadLine(conn, c.MaxRequest)
	if len(line) == 0 && err != nil {
		c.Log.Debug().Err(err).Msg("a client said nothing")
		return
	}
	answer := c.Answer(ctx, line)
	_ = conn.SetWriteDeadline(time.Now().Add(lineTime))
	if err := json.NewEncoder(conn).Encode(answer); err != nil {
		c.Log.Debug().Err(err).Msg("a client went away")
	}
}

// ReadLine reads one line of at most limit bytes.
func ReadLine(r io.Reader, limit int64) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, limit)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && int64(len(line)) >= limit {
		return nil, errors.Errorf("cannot read a line: at most %d bytes are allowed", limit)
	}
	return line, err
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
