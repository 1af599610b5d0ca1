package userapi

import (
	"context"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/supervise"
)

// tunnel hands connections from the tunnel over to the door's process.
func (a *attendant) tunnel(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case conn := <-a.door.tunnel:
			if err := a.pipe(ctx, conn); err != nil {
				return ended(ctx, err)
			}
		}
	}
}

// pipe connects a tunnelled connection, which has no descriptor, to a socket that has one.
func (a *attendant) pipe(ctx context.Context, conn net.Conn) error {
	leave, err := a.door.tunnels.Take("", 1)
	if err != nil {
		_ = conn.Close()
		return nil //nolint:nilerr // the limit has counted it
	}
	ours, theirs, err := wire.Pair(unix.SOCK_STREAM)
	if err != nil {
		leave()
		_ = conn.Close()
		a.door.Log.Warn().Err(err).Msg("connection through the tunnel refused")
		return nil
	}
	defer theirs.Close()
	a.all.Go(func() {
		defer leave()
		supervise.Do(a.door.Log, "door pipe", func() { a.carry(ctx, conn, ours) })
	})
	return a.control.Send(wire.Message{Kind: wire.Tunnel, File: theirs})
}

// linger is how long a user may take to hang up once the door's process has.
const linger = 6 * time.Second

// carry copies both ways until both ends are done with it.
func (a *attendant) carry(ctx context.Context, user net.Conn, door *net.UnixConn) {
	defer user.Close()
	defer door.Close()
	stop := context.AfterFunc(ctx, func() { _ = user.Close(); _ = door.Close() })
	defer stop()
	in := make(chan struct{})
	go func() {
		defer close(in)
		supervise.Do(a.door.Log, "door pipe", func() {
			_, _ = io.Copy(struct{ io.Writer }{door}, user) // the other direction meets the error too
			_ = door.CloseWrite()
		})
	}()
	_, _ = io.Copy(patient{user, a.door.Limits.Stuck}, struct{ io.Reader }{door})
	if half, ok := user.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	// The user's further data would have no reader.
	_ = user.SetReadDeadline(time.Now().Add(linger))
	<-in
}

// patient is a net.Conn whose peer may take stuck to read.
type patient struct {
	net.Conn
	stuck time.Duration
}

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.stuck))
	return p.Conn.Write(b)
}
