package loop

import "math/bits"

const (
	leastBuffer = 4 << 10
	// pooled is the maximum size of unused buffers that are kept, in bytes.
	pooled = 32 << 20
)

// buffers is a pool of unused buffers, so that requests allocate none.
type buffers struct {
	classes [160]class
	size    int
}

type class struct {
	free [][]byte
	// low is the minimum of free ones since the last trim: so many weren't needed.
	low int
}

// A class is a size: each power of two has four, so that a quarter of a large
// buffer is lost at most.

// below is the largest class whose buffers have at most n bytes.
func below(n int) int {
	k := bits.Len(uint(n)) - 1
	return 4*k + n>>(k-2)&3
}

// classSize is the size of a class's buffers, in bytes.
func classSize(class int) int { return (4 + class%4) << (class/4 - 2) }

// get returns an empty buffer of at least n bytes.
func (p *buffers) get(n int) []byte {
	// The smallest class whose buffers have at least n bytes.
	k := below(max(n, leastBuffer)-1) + 1
	c := &p.classes[k]
	last := len(c.free) - 1
	if last < 0 {
		return make([]byte, 0, classSize(k))
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
	c := &p.classes[below(cap(b))]
	c.free = append(c.free, b)
	p.size += cap(b)
}

// trim frees half of the buffers that weren't needed since the last trim.
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
