package socket

import (
	"net"
	"syscall"

	"github.com/pkg/errors"
)

// Reason is the cause of a failed call, without addresses and paths of this node: it
// may be shown to a tenant.
func Reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var call *net.OpError
	if errors.As(err, &call) {
		return call.Err
	}
	return errors.Cause(err)
}
