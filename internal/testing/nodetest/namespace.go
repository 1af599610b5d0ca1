package nodetest

import (
	"context"
	"net"
	"os/exec"

	"github.com/croft-edge/croft/pkg/netns"
)

// DialFrom dials from the network namespace of that file; from the test's own when it is empty.
func (t *Traffic) DialFrom(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dialFrom(namespace)
}

func dialFrom(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		var dialer net.Dialer
		if namespace == "" {
			return dialer.DialContext(ctx, network, address)
		}
		// One attempt at a time: the socket must be made on the thread that is in the namespace.
		dialer.FallbackDelay = -1
		err = netns.Do(namespace, func() error {
			conn, err = dialer.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// Command runs a command in the network namespace of that file.
func Command(namespace string, command ...string) ([]byte, error) {
	return exec.Command("nsenter", append([]string{"--net=" + namespace}, command...)...).CombinedOutput()
}
