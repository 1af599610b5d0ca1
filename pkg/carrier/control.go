package carrier

import (
	"bufio"
	"context"
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
	// MaxConnections is how many connections are served at a time.
	MaxConnections = 32
	// lineTime limits a client's writing of its request, and its reading of
	// the answer.
	lineTime = 10 * time.Second
)

// control serves the socket.
type control struct {
	listener *net.UnixListener
	// maxRequest is the longest line in bytes.
	maxRequest int64
	// answer returns the answer to a line.
	answer func(ctx context.Context, line []byte) []byte
	log    zerolog.Logger
}

// listen opens the socket with mode 0600 in a folder of 0700. The lock is
// held, so an existing socket is a dead process's.
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

// run answers until ctx is done; requests in progress are finished.
func (c *control) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, MaxConnections)
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
			supervise.Do(c.log, "carrier", func() { c.serve(ctx, conn) })
		})
	}
}

// serve answers one connection. No input of it ends the process.
func (c *control) serve(ctx context.Context, conn *net.UnixConn) {
	if !sameUser(conn) {
		return
	}
	unblock := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer unblock()
	_ = conn.SetDeadline(time.Now().Add(lineTime))
	line, err := readLine(conn, c.maxRequest)
	if len(line) == 0 && err != nil {
		c.log.Debug().Err(err).Msg("a client sent no request")
		return
	}
	answer := c.answer(ctx, line)
	_ = conn.SetWriteDeadline(time.Now().Add(lineTime))
	if _, err := conn.Write(append(answer, '\n')); err != nil {
		c.log.Debug().Err(err).Msg("cannot send the answer: the client is gone")
	}
}

// readLine reads one line of at most limit bytes.
func readLine(r io.Reader, limit int64) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, limit)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && int64(len(line)) >= limit {
		return nil, errors.Errorf("cannot read a line: at most %d bytes are allowed", limit)
	}
	return line, err
}

// sameUser reports whether the client runs as the user of this process.
func sameUser(conn *net.UnixConn) bool {
	cred, err := peer(conn)
	return err == nil && int(cred.Uid) == os.Geteuid()
}

// peer returns the credentials of the process at the other end: for a client, those of
// the one that opened the socket.
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
