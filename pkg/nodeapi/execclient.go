package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// RunExec is the user's side of an exec, on a connection that the node has switched to
// frames; reader holds its bytes that were read already. It returns the process's exit
// code. A read of Stdin may still be pending afterwards: the caller closes Stdin, or
// ends. The connection is closed when it returns.
func RunExec(ctx context.Context, conn net.Conn, reader *bufio.Reader, p Pulse, streams ExecIO) (uint32, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	l := newLink(conn, reader, p)
	space := newRoom()
	defer space.end()
	beside := func(name string, f func()) {
		go func() {
			if supervise.Catch(name, func() error { f(); return nil }) != nil {
				_ = conn.Close() // the reader notices
			}
		}()
	}
	beside("exec beat", func() { l.beat(streaming) })
	beside("exec stdin", func() { send(l, streams.Stdin, space) })
	if streams.Resize != nil {
		beside("exec sizes", func() { sendSizes(streaming, l, streams.Resize) })
	}
	for {
		f, err := l.read()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return 0, node.WithKind(node.Transient, errors.Wrap(err, "cannot go on: the node has gone before the command ended"))
		}
		ended, code, err := receiveFrame(f, streams, space)
		if err != nil && ctx.Err() != nil {
			// The node may notice ctx's end before the connection ends.
			err = ctx.Err()
		}
		if ended || err != nil {
			return code, err
		}
	}
}

// receiveFrame handles a frame of the node, and reports whether it was the last.
func receiveFrame(f Frame, streams ExecIO, space *room) (ended bool, code uint32, err error) {
	switch f.Kind {
	case Stdout:
		_, err = streams.Stdout.Write(f.Payload)
	case Stderr:
		_, err = streams.Stderr.Write(f.Payload)
	case Credit:
		space.add(f.number())
	case Exit:
		return true, f.number(), nil
	case Failure:
		var t Trailer
		if json.Unmarshal(f.Payload, &t) != nil {
			t = Trailer{Error: "cannot go on: the node's error can't be read"}
		}
		return true, 0, t.err()
	case Ping:
	default:
		err = node.Errorf(node.Transient, "cannot go on: a frame of kind %d is the user's to send", f.Kind)
	}
	return false, 0, err
}

func (t Trailer) err() error {
	kind := node.Kind(t.Kind)
	if !kind.Known() {
		kind = node.Transient
	}
	return node.Errorf(kind, "%s", t.Error)
}

// send sends stdin as far as there is room for it, then CloseStdin.
func send(l *link, from io.Reader, space *room) {
	buffer := make([]byte, 32<<10)
	for from != nil {
		n, err := from.Read(buffer)
		for rest := buffer[:n]; len(rest) > 0; {
			fits := space.take(len(rest))
			if fits == 0 || l.write(Frame{Stdin, rest[:fits]}) != nil {
				return
			}
			rest = rest[fits:]
		}
		if err != nil {
			break
		}
	}
	_ = l.write(Frame{Kind: CloseStdin}) // the reader notices a lost connection
}

func sendSizes(ctx context.Context, l *link, sizes <-chan Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case s, ok := <-sizes:
			if !ok || l.write(sizeFrame(s)) != nil {
				return
			}
		}
	}
}
