package privatesocket

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// ErrNotRunning is the cause when no process serves the socket.
var ErrNotRunning = errors.New("no node is running here")

// dialTimeout bounds one attempt to connect.
const dialTimeout = 5 * time.Second

// Dial connects to the process that serves the socket.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
	var number syscall.Errno
	switch {
	case err == nil:
		return c, nil
	case !errors.As(err, &number):
		return nil, errors.Wrapf(err, "cannot open %s", path)
	case errors.Is(number, syscall.ENOENT), errors.Is(number, syscall.ECONNREFUSED):
		return nil, errors.Wrapf(ErrNotRunning, "cannot open %s (%s)", path, number)
	case errors.Is(number, os.ErrPermission):
		return nil, errors.Errorf("cannot open %s (%s): only root and the node's own user may", path, number)
	}
	return nil, errors.Wrapf(number, "cannot open %s", path)
}
