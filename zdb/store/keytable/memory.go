package keytable

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedTable is the size, in bytes, from which on a part of the keys' table has
// memory of its own: when it grows the old memory is free at once, where the garbage
// collector would let twice as much stand.
const mappedTable = 64 << 10

// newTable answers n free slots, and whether they must be given back with freeTable.
func newTable(n int) (slots []Entry, mapped bool) {
	if n*entrySize >= mappedTable {
		p, err := unix.MmapPtr(-1, 0, nil, uintptr(n*entrySize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			return unsafe.Slice((*Entry)(p), n), true
		}
	}
	return make([]Entry, n), false
}

// freeTable unmaps a table of newTable.
func freeTable(t []Entry) {
	// It fails only when the memory isn't ours.
	_ = unix.MunmapPtr(unsafe.Pointer(&t[0]), uintptr(len(t)*entrySize))
}
