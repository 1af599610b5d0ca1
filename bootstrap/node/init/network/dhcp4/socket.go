package dhcp4

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/mdlayher/packet"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/supervise"
)

// broadcast opens a socket that needs no address: it sends to all, and gets what is sent to a DHCP client's port and nothing else of the
// interface's packets.
func broadcast(index int) (net.PacketConn, error) {
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, err
	}
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 5},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 3}, // a later fragment
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nclient4.ClientPort, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1 << 16},
	})
	if err != nil {
		return nil, err
	}
	raw, err := packet.Listen(link, packet.Datagram, unix.ETH_P_IP, &packet.Config{Filter: filter})
	if err != nil {
		return nil, err
	}
	return nclient4.NewBroadcastUDPConn(raw, &net.UDPAddr{Port: nclient4.ClientPort}), nil
}

// unicast opens a socket of the leased address.
func unicast(ctx context.Context, device string, own netip.Addr) (net.PacketConn, error) {
	listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), device) }); err != nil {
			return err
		}
		return failed
	}}
	return listen.ListenPacket(ctx, "udp4", netip.AddrPortFrom(own, nclient4.ClientPort).String())
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
		var broken error
		panicked := supervise.Guard(g.log, "dhcp4", func() error {
			if n, from, err = g.PacketConn.ReadFrom(b); err == nil {
				_, broken = dhcpv4.FromBytes(b[:n])
			}
			return nil
		})
		if err != nil {
			return 0, nil, errors.WithStack(err)
		}
		if panicked == nil && broken == nil {
			return n, from, nil
		}
	}
}
