package carrier

// The defaults of how much memory a carrier may use, in bytes.
const (
	DefaultMemoryLimit = 64 << 20
	DefaultHardLimit   = 256 << 20
)

// heapLimit is how much memory the garbage collector may let there be, in bytes: limit for the
// packets in hand, and what the devices have that is never garbage, so that it doesn't run all the
// time for nothing. That is their Cost, and what lies in their heap and is never touched, most of it.
func heapLimit(limit uint64, t Tuning, devices int, cost uint64) int64 {
	return int64(limit + uint64(devices)*untouched(t) + cost)
}

// untouched is what a device has beyond its Cost: the buffers of its readers and of what they have
// handed on, what they read into, and the library's tables of segments to put together.
func untouched(t Tuning) uint64 {
	const readers = 3 // the link, IPv4, IPv6
	return uint64((readers+1)*t.Batch<<16 + readers*conn128*slotSize + 2*coalesced<<16 + segmentTables)
}

// segmentTables was measured: TestTheCollectorIsToldWhatNetworksTake holds it.
const segmentTables = 2 << 20

// conn128 is how many slots a reader has.
const conn128 = 128
