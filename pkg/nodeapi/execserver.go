package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// linger is how long the other side may take to hang up after the last frame.
const linger = 5 * time.Second

// ServeExec is the node's side of an exec, on a connection that was taken over from
// HTTP; reader holds its bytes that were read already. serve gets the streams, and a
// context that is done once the user's side is gone. The connection is closed
// when it returns; the error is the reason when the exec ended without an exit code.
func ServeExec(ctx context.Context, conn net.Conn, reader *bufio.Reader, p Pulse, serve func(context.Context, ExecIO) (uint32, error)) error {
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := newLink(conn, reader, p)
	in := newInput(func(n uint32) error { return l.write(numberFrame(Credit, n)) })
	defer context.AfterFunc(ctx, func() { in.end(context.Cause(ctx)) })()
	// Only the connection's end frees a writer whose peer doesn't read.
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now().Add(linger)) })()
	resize := make(chan Size, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cancel(supervise.Catch("exec input", func() error { return receive(l, in, resize) }))
	}()
	go func() {
		if err := supervise.Catch("exec beat", func() error { l.beat(ctx); return nil }); err != nil {
			cancel(err)
		}
	}()
	code, err := serve(ctx, ExecIO{Stdin: in, Stdout: outlet{l, Stdout}, Stderr: outlet{l, Stderr}, Resize: resize})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	last := numberFrame(Exit, code)
	if err != nil {
		last = failure(err)
	}
	if werr := l.write(last); err == nil {
		err = werr
	}
	// Further input is read until the user hangs up: closing earlier would reset
	// the connection, and could lose the last frame.
	hangUp(conn)
	timer := time.AfterFunc(linger, func() { _ = conn.Close() })
	defer timer.Stop()
	<-gone
	return err
}

// hangUp closes the sending direction.
func hangUp(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the peer is gone, or learns of it
	}
}

func failure(err error) Frame {
	text := err.Error()
	if len(text) > 2048 {
		text = text[:2048]
	}
	body, merr := json.Marshal(Trailer{Error: text, Kind: string(node.KindOf(err))})
	if merr != nil {
		body = []byte(`{}`)
	}
	return Frame{Failure, body}
}

// receive reads the user's frames until the user hangs up, and returns why it ended.
func receive(l *link, in *input, resize chan Size) error {
	for {
		f, err := l.read()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
			return node.Errorf(node.Transient, "cannot go on: the user has hung up")
		}
		if err != nil {
			return err
		}
		switch f.Kind {
		case Stdin:
			if err := in.fill(f.Payload); err != nil {
				return err
			}
		case CloseStdin:
			in.end(io.EOF)
		case Resize:
			newest(resize, f.size())
		case Ping:
		default:
			return node.Errorf(node.Invalid, "cannot go on: a frame of kind %d is the node's to send", f.Kind)
		}
	}
}

// newest puts s into a channel of one, in place of an unread value.
func newest(c chan Size, s Size) {
	select {
	case <-c:
	default:
	}
	c <- s // there is one sender
}
