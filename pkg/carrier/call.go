package carrier

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// callTime bounds a call whose context has no deadline of its own.
const callTime = 30 * time.Second

// Failure is how an error crosses the socket.
type Failure struct {
	Kind    node.Kind `json:"kind"`
	Message string    `json:"message"`
}

// FailureOf is that of an error, nil for none.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{Kind: node.KindOf(err), Message: err.Error()}
}

// Err is the error again.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	kind := f.Kind
	if !kind.Known() {
		kind = node.Internal
	}
	return node.Errorf(kind, "%s", f.Message)
}

// Call is one thing that is asked.
type Call struct {
	Socket string
	// What names it in errors; Request is said as one line of JSON.
	What    string
	Request any
	// MaxRequest and MaxAnswer bound the lines, in bytes.
	MaxRequest int64
	MaxAnswer  int64
	// Only is the process that may be asked, 0 for any.
	Only int
}

// Do asks whoever serves the socket, and says who that is. Another than Only
// is asked nothing. The error is node.Transient when nothing was asked for
// certain, node.Unknown when something may have been.
func (c Call) Do(ctx context.Context, answer any) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return 0, node.Errorf(node.Transient, "cannot reach the carrier: %w", err)
	}
	defer conn.Close()
	cred, err := peer(conn.(*net.UnixConn))
	if err != nil || int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return 0, node.Errorf(node.Refused, "cannot trust the carrier's socket: it isn't this user's")
	}
	if pid = int(cred.Pid); c.Only != 0 && pid != c.Only {
		return pid, nil
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer interrupt()
	err = c.exchange(conn, answer)
	if err != nil && ctx.Err() != nil {
		err = node.Errorf(node.Unknown, "cannot wait for the carrier's answer to %s: %w", c.What, ctx.Err())
	}
	return pid, err
}

// exchange says one line and reads one.
func (c Call) exchange(conn net.Conn, answer any) error {
	line, err := json.Marshal(c.Request)
	if err != nil {
		return node.Errorf(node.Invalid, "cannot ask the carrier for %s: %w", c.What, err)
	}
	if int64(len(line)) >= c.MaxRequest {
		return node.Errorf(node.Invalid, "cannot ask the carrier for %s: the request has %d bytes, %d are allowed", c.What, len(line), c.MaxRequest)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		// A carrier that refuses may answer before it has read all.
		if !errors.Is(err, unix.EPIPE) {
			return node.Errorf(node.Unknown, "cannot ask the carrier for %s: %w", c.What, err)
		}
	}
	raw, err := ReadLine(conn, c.MaxAnswer)
	if err == nil {
		err = json.Unmarshal(raw, answer)
	}
	if err != nil {
		return node.Errorf(node.Unknown, "cannot read the carrier's answer to %s: %w", c.What, err)
	}
	return nil
}
