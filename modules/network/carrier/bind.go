package carrier

import (
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

// coalesced is how many of the library's slots take datagrams that the kernel
// put together.
const coalesced = 2

// bind is the UDP side of a device, with the same small batches and windows
// as its link. Its sockets are in the namespace of the process.
type bind struct {
	conn.Bind
	batch    int
	outbound *window
	inbound  *window
}

func (b *bind) BatchSize() int { return b.batch }

// Open opens the sockets.
func (b *bind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	fns, actual, err := b.Bind.Open(port)
	for i, fn := range fns {
		fns[i] = b.batched(fn)
	}
	return fns, actual, err
}

func (b *bind) batched(receive conn.ReceiveFunc) conn.ReceiveFunc {
	in := newPackets(coalesced)
	return func(bufs [][]byte, sizes []int, endpoints []conn.Endpoint) (int, error) {
		b.inbound.wait()
		if in.empty() {
			in.begin(bufs)
			n, err := receive(in.slots, in.sizes, in.endpoints)
			if err != nil {
				return 0, err
			}
			in.filled(n)
		}
		n := in.hand(bufs, sizes, endpoints, 0)
		b.inbound.take(n)
		return n, nil
	}
}

// Send sends packets that came from the link. A packet leaves from the address
// that its peer wrote to; when this node has lost that address, from any.
func (b *bind) Send(bufs [][]byte, to conn.Endpoint) error {
	err := b.Bind.Send(bufs, to)
	if at, ok := to.(*conn.StdNetEndpoint); ok && sourceLost(err) {
		err = b.Bind.Send(bufs, &conn.StdNetEndpoint{AddrPort: at.AddrPort})
	}
	b.outbound.free(len(bufs))
	return err
}

func sourceLost(err error) bool {
	for _, lost := range []error{unix.EINVAL, unix.ENETUNREACH, unix.EADDRNOTAVAIL, unix.ENODEV} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}
