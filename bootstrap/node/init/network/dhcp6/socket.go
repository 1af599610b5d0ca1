package dhcp6

import (
	"context"
	"net"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/supervise"
)

// listen opens the client's port on one interface.
func listen(ctx context.Context, device string) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), device) }); err != nil {
			return err
		}
		return failed
	}}
	return config.ListenPacket(ctx, "udp6", "[::]:546")
}

// guarded gives the library only packets that it can read: its reading goroutine isn't this package's, and a panic of it would end the
// process.
type guarded struct {
	net.PacketConn
	log zerolog.Logger
}

// ReadFrom implements net.PacketConn.
func (g guarded) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	for {
		n, from, err = g.PacketConn.ReadFrom(b)
		if err != nil {
			return 0, nil, errors.WithStack(err)
		}
		bad := supervise.Guard(g.log, "dhcp6", func() error {
			_, err := dhcpv6.MessageFromBytes(b[:n])
			return err
		})
		if bad == nil {
			return n, from, nil
		}
	}
}
