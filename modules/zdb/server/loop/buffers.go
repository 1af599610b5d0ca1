package loop

import "math/bits"

const (
	leastBuffer = 4 << 10
	// pooled is how many bytes of buffers nobody uses are kept.
	pooled = 32 << 20
)

// buffers keeps buffers that nobody uses: the hot path makes none. Those of a
// class have at least 2^class bytes.
type buffers struct {
	classes [40]class
	size    int
}

type class struct {
	free [][]byte
	// low is the fewest that were free since the last trim: those weren't needed.
	low int
}

// get returns an empty buffer of at least n bytes.
func (p *buffers) get(n int) []byte {
	k := bits.Len(uint(max(n, leastBuffer) - 1))
	c := &p.classes[k]
	last := len(c.free) - 1
	if last < 0 {
		return make([]byte, 0, 1<<k)
	}
	b := c.free[last]
	c.free[last] = nil
	c.free = c.free[:last]
	c.low = min(c.low, last)
	p.size -= cap(b)
	return b[:0]
}

// put takes a buffer back.
func (p *buffers) put(b []byte) {
	if cap(b) < leastBuffer || p.size+cap(b) > pooled {
		return
	}
	c := &p.classes[bits.Len(uint(cap(b)))-1]
	c.free = append(c.free, b)
	p.size += cap(b)
}

// trim gives half of what wasn't needed since the last time to the garbage
// collector.
func (p *buffers) trim() {
	for k := range p.classes {
		c := &p.classes[k]
		for range (c.low + 1) / 2 {
			last := len(c.free) - 1
			p.size -= cap(c.free[last])
			c.free[last] = nil
			c.free = c.free[:last]
		}
		c.low = len(c.free)
	}
}
