package carrier

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// callTime bounds a call whose context has no deadline of its own.
const callTime = 30 * time.Second

// call is one request to the carrier in a folder.
type call struct {
	kind   Kind
	folder Folder
	op     string
	// request is the document of the request.
	request any
	// only is the ID of the process that may be asked, 0 for any.
	only int
}

// do asks the process that serves the socket, and returns its ID. It doesn't ask a
// process other than only. The error is the carrier's own; or node.Transient when the
// request certainly wasn't made, node.Unknown when it may have been.
func (c call) do(ctx context.Context, answer any) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.folder.Socket())
	if err != nil {
		return 0, node.Errorf(node.Transient, "cannot reach the carrier: %w", err)
	}
	defer conn.Close()
	cred, err := peer(conn.(*net.UnixConn))
	if err != nil || int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return 0, node.Errorf(node.Refused, "cannot trust the carrier's socket: it isn't this user's")
	}
	if pid = int(cred.Pid); c.only != 0 && pid != c.only {
		return pid, nil
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer interrupt()
	line, err := c.exchange(conn)
	if err != nil && ctx.Err() != nil {
		err = node.Errorf(node.Unknown, "cannot wait for the carrier's answer to %s: %w", c.op, ctx.Err())
	}
	if err != nil {
		return pid, err
	}
	head, err := decodeAnswer(line, answer)
	if err != nil {
		return pid, c.unreadable(err)
	}
	return pid, head.Error.err()
}

func (c call) unreadable(err error) error {
	return node.Errorf(node.Unknown, "cannot read the carrier's answer to %s: %w", c.op, err)
}

// exchange writes one line and reads one.
func (c call) exchange(conn net.Conn) ([]byte, error) {
	line, err := encode(requestHead{Version: c.kind.Protocol, Op: c.op}, c.request)
	if err != nil {
		return nil, node.Errorf(node.Invalid, "cannot ask the carrier for %s: %w", c.op, err)
	}
	if int64(len(line)) >= c.kind.MaxRequest {
		return nil, node.Errorf(node.Invalid, "cannot ask the carrier for %s: the request has %d bytes, %d are allowed", c.op, len(line), c.kind.MaxRequest)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		// A carrier that refuses may answer before it has read all.
		if !errors.Is(err, unix.EPIPE) {
			return nil, node.Errorf(node.Unknown, "cannot ask the carrier for %s: %w", c.op, err)
		}
	}
	answer, err := readLine(conn, c.kind.MaxAnswer)
	if err != nil {
		return nil, c.unreadable(err)
	}
	return answer, nil
}
