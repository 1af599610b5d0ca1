package carrier

import "runtime/debug"

// The defaults of how much memory a carrier may use, in bytes.
const (
	DefaultMemoryLimit = 64 << 20
	DefaultHardLimit   = 256 << 20
)

// limitHeap tells the garbage collector how much there may be. The buffers
// that every device reads into are never garbage, and most of them never
// touched: they come on top, else the collector would run all the time.
func limitHeap(limit uint64, t Tuning, devices int) {
	const readers = 3 // the link, IPv4, IPv6
	perDevice := uint64(readers*(t.Batch<<16+conn128*slotSize) + 2*coalesced<<16)
	debug.SetMemoryLimit(int64(limit + uint64(devices)*perDevice))
}

// conn128 is how many slots a reader has.
const conn128 = 128
