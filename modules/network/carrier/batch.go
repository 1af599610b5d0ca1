package carrier

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
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
	// begun is set at the first read.
	begun bool
}

// newPackets makes room for as many as the library reads at once, the last
// large of them for 64 KiB: those take packets that the kernel has coalesced.
func newPackets(large int) *packets {
	const most = conn.IdealBatchSize
	p := &packets{slots: make([][]byte, most), sizes: make([]int, most), endpoints: make([]conn.Endpoint, most)}
	memory := untouched(p, (most-large)*slotSize+large<<16)
	for i := range p.slots {
		size := slotSize
		if i >= most-large {
			size = 1 << 16
		}
		p.slots[i], memory = memory[:size:size], memory[size:]
	}
	return p
}

// untouched is memory for p that takes room only where it is written, and is returned to the system with p. Memory of the heap may be written as a
// whole when it is allocated: the runtime zeroes what it doesn't know to be fresh.
func untouched(p *packets, size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return make([]byte, size)
	}
	runtime.AddCleanup(p, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return memory
}

// begin is called before a read that fills bufs, the device's buffers. At the first it lets go of their memory: see untouched. Nothing is in them yet.
func (p *packets) begin(bufs [][]byte) {
	if p.begun {
		return
	}
	p.begun = true
	for _, buf := range bufs {
		letGo(buf)
	}
}

// letGo returns the whole pages of a buffer to the system, which are zero when they are used next.
func letGo(buf []byte) {
	page := os.Getpagesize()
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % uintptr(page))
	from, to := (page-at)%page, (at+len(buf))/page*page-at
	if from < to {
		_ = unix.Madvise(buf[from:to], unix.MADV_DONTNEED) // what isn't returned stays
	}
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
