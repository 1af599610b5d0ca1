package carrier

import (
	"os"

	"golang.zx2c4.com/wireguard/tun"
)

// link is a tun device with small batches, bounded packets in hand, and an
// MTU that it knows: the library would look for the link in this namespace,
// where it isn't. No events: the carrier says when it comes up.
type link struct {
	inner    tun.Device
	mtu      int
	batch    int
	in       *packets
	outbound *window // from the tun to the network
	inbound  *window // from the network to the tun
}

func (l *link) File() *os.File           { return l.inner.File() }
func (l *link) MTU() (int, error)        { return l.mtu, nil }
func (l *link) Name() (string, error)    { return l.inner.Name() }
func (l *link) Events() <-chan tun.Event { return l.inner.Events() }
func (l *link) BatchSize() int           { return l.batch }
func (l *link) Close() error             { return l.inner.Close() }

// Read reads at most a batch of the packets that go to the network.
func (l *link) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	l.outbound.wait()
	if l.in.empty() {
		l.in.begin(bufs)
		n, err := l.inner.Read(l.in.slots, l.in.sizes, 0)
		l.in.filled(n)
		if err != nil {
			return l.in.hand(bufs, sizes, nil, offset), err
		}
	}
	n := l.in.hand(bufs, sizes, nil, offset)
	l.outbound.take(n)
	return n, nil
}

// Write writes packets that came from the network.
func (l *link) Write(bufs [][]byte, offset int) (int, error) {
	n, err := l.inner.Write(bufs, offset)
	l.inbound.free(len(bufs))
	return n, err
}
