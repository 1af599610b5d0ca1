package index

import (
	"github.com/croft-edge/croft/zdb/store/format"
)

// WantChanges and MaxChanges are the numbers of changed slots in memory from which on a
// checkpoint is wanted, and waited for.
const (
	WantChanges = 32 << 10
	MaxChanges  = 256 << 10
)

// overlay is slots that were changed and aren't in their files yet.
type overlay struct {
	at    map[uint64]int
	slots []byte
}

func newOverlay() *overlay { return &overlay{at: map[uint64]int{}} }

// get answers a slot's bytes, nil if it wasn't changed.
func (o *overlay) get(number uint64) []byte {
	if len(o.at) == 0 {
		return nil
	}
	if at, ok := o.at[number]; ok {
		return o.slots[at : at+format.SlotSize]
	}
	return nil
}

// set answers the bytes for a slot, which it takes from where they were.
func (o *overlay) set(number uint64) []byte {
	at, ok := o.at[number]
	if !ok {
		at = len(o.slots)
		o.at[number] = at
		o.slots = append(o.slots, make([]byte, format.SlotSize)...)
	}
	return o.slots[at : at+format.SlotSize]
}

// forget drops the change of a slot.
func (o *overlay) forget(number uint64) { delete(o.at, number) }

// clear empties the overlay. Its memory stays, unless it is much.
func (o *overlay) clear() {
	if len(o.at) > 2*WantChanges {
		*o = *newOverlay()
		return
	}
	clear(o.at)
	o.slots = o.slots[:0]
}
