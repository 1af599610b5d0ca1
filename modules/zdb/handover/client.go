package handover

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/zdb/socket"
)

// Conn is the node's end of a connection. Dial makes one. One goroutine uses it
// at a time; Close may come from any.
type Conn struct {
	conn *net.UnixConn
	path string
	// listeners are those of the greeting, until Listeners returns them.
	listeners []*os.File
}

// Dial connects to the zdb whose socket is at path, and reads its greeting. ctx
// should have a deadline: it bounds the wait for a zdb that hangs.
func Dial(ctx context.Context, path string) (*Conn, error) {
	conn, err := socket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, path: path}
	err = c.within(ctx, c.meet)
	if err != nil {
		_ = c.Close()
		return nil, errors.Wrapf(err, "cannot ask the zdb at %s for its listeners", path)
	}
	return c, nil
}

// meet reads the greeting.
func (c *Conn) meet(by time.Time) error {
	in, err := receive(c.conn, by, MaxListeners)
	if err != nil {
		return err
	}
	g, err := decode[greeting](in.text)
	switch {
	case err != nil:
		err = errors.Wrap(err, "its greeting can't be read")
	case g.Version != version:
		err = errors.Errorf("its version is %d, must be %d", g.Version, version)
	case g.Error != "":
		err = errors.Errorf("it says: %s", shown(g.Error))
	case g.Listeners != len(in.files):
		err = errors.Errorf("it says %d listeners and sends %d", g.Listeners, len(in.files))
	}
	if err != nil {
		in.close()
		return err
	}
	c.listeners = whichListen(in.files)
	return nil
}

// Listeners are those that the zdb had when it was connected to. They are the
// caller's to close; a second call returns none.
func (c *Conn) Listeners() []*os.File {
	out := c.listeners
	c.listeners = nil
	return out
}

// Give hands a listening socket over: when it returns, the zdb accepts
// connections on it. The file stays the caller's.
func (c *Conn) Give(ctx context.Context, listener *os.File) error {
	err := c.within(ctx, func(by time.Time) error {
		if err := send(c.conn, by, encode(request{Take: 1}), []*os.File{listener}); err != nil {
			return err
		}
		in, err := receive(c.conn, by, 0)
		if err != nil {
			return err
		}
		r, err := decode[reply](in.text)
		switch {
		case err != nil:
			return errors.Wrap(err, "its answer can't be read")
		case !r.OK:
			return errors.Errorf("it says: %s", shown(r.Error))
		}
		return nil
	})
	return errors.Wrapf(err, "cannot hand a listener to the zdb at %s", c.path)
}

// Wait returns once the connection has ended: nil when the zdb has ended it, ctx's
// error when ctx did; then it is closed. Data from the zdb is an error.
func (c *Conn) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return ctx.Err()
	}
	var unasked [1]byte
	n, err := c.conn.Read(unasked[:])
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n > 0:
		return errors.Errorf("cannot go on with the zdb at %s: it speaks without being asked", c.path)
	case err == nil:
		return nil
	}
	return nil //nolint:nilerr // the error only says how it has ended
}

// Close ends the connection. The zdb keeps the listeners it was given.
func (c *Conn) Close() error {
	line{files: c.Listeners()}.close()
	return c.conn.Close()
}

// within calls do, which ends when ctx is done.
func (c *Conn) within(ctx context.Context, do func(by time.Time) error) error {
	by, _ := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	err := do(by)
	if !stop() && err != nil {
		return ctx.Err()
	}
	return err
}
