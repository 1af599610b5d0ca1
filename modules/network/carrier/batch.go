package carrier

import (
	"golang.zx2c4.com/wireguard/conn"
)

// slotSize holds a packet of the greatest MTU and WireGuard's header and tag.
const slotSize = 2048

// packets holds the packets of one read, handed on in smaller batches. Many are
// read at once for speed, but into slots of slotSize; only packets that are handed
// on are copied to the device's 64 KiB buffers.
type packets struct {
	slots     [][]byte
	sizes     []int
	endpoints []conn.Endpoint
	next, end int
}

// newPackets makes room for as many as the library reads at once, the last
// large of them for 64 KiB: those take packets that the kernel has coalesced.
func newPackets(large int) *packets {
	const most = conn.IdealBatchSize
	p := &packets{slots: make([][]byte, most), sizes: make([]int, most), endpoints: make([]conn.Endpoint, most)}
	small := make([]byte, (most-large)*slotSize)
	for i := range p.slots {
		if i < most-large {
			p.slots[i] = small[i*slotSize : (i+1)*slotSize : (i+1)*slotSize]
		} else {
			p.slots[i] = make([]byte, 1<<16)
		}
	}
	return p
}

func (p *packets) filled(n int) { p.next, p.end = 0, n }

func (p *packets) empty() bool { return p.next >= p.end }

// hand copies the next ones to bufs from offset on, and returns how many.
func (p *packets) hand(bufs [][]byte, sizes []int, endpoints []conn.Endpoint, offset int) int {
	n := 0
	for ; n < len(bufs) && !p.empty(); n++ {
		sizes[n] = copy(bufs[n][offset:], p.slots[p.next][:min(p.sizes[p.next], len(p.slots[p.next]))])
		if endpoints != nil {
			endpoints[n] = p.endpoints[p.next]
			p.endpoints[p.next] = nil
		}
		p.next++
	}
	return n
}
