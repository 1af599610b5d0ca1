package containerd

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/carrier"
)

// listener is the process that listens on a socket, nil when none does.
func listener(ctx context.Context, socket string) *carrier.Process {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || asked != nil || int(cred.Uid) != os.Geteuid() {
		return nil
	}
	p, err := carrier.Watch(int(cred.Pid))
	if err != nil {
		return nil // it ended just now
	}
	return p
}
