package format_test

import (
	"testing"

	"github.com/croft-edge/croft/zdb/store/format"
)

func heads() map[string]format.Head {
	put := format.Head{
		Kind: format.KindPut, KeyLen: 3, Length: 5, CRC: 7, Time: 11, Data: format.Position{File: 1, Offset: 26}, Prev: 13,
		Slot: 17, Index: format.Position{File: 1, Offset: 27},
	}
	update := put
	update.Replaces, update.Old = true, format.OldVersion{Slot: 16, Index: format.Position{File: 1, Offset: 19}, At: format.PlaceOf(2, 128)}
	moved := update
	moved.Moved = true
	return map[string]format.Head{"put": put, "update": update, "moved": moved}
}

func TestHeadRoundTrip(t *testing.T) {
	for name, h := range heads() {
		b := h.Append(nil, []byte("key"), 42)
		got, key, needs, ok := format.ParseHead(b, 42)
		if !ok || got != h || string(key) != "key" || needs != len(b) {
			t.Errorf("%s: %+v, %q, %d, %t", name, got, key, needs, ok)
		}
		if _, _, _, ok := format.ParseHead(b, 43); ok {
			t.Errorf("%s is accepted at another place", name)
		}
	}
}

// A single wrong bit of a head or its key is detected and repaired, wherever it is.
func TestRepairHead(t *testing.T) {
	for name, h := range heads() {
		good := h.Append(nil, []byte("key"), 42)
		for bit := range 8 * len(good) {
			b := append([]byte(nil), good...)
			b[bit/8] ^= 1 << (bit % 8)
			if _, _, _, ok := format.ParseHead(b, 42); ok {
				t.Fatalf("%s: bit %d isn't detected", name, bit)
			}
			got, key, ok := format.RepairHead(b, 42)
			if !ok || got != h || string(key) != "key" {
				t.Fatalf("%s: bit %d: %+v, %q, %t", name, bit, got, key, ok)
			}
		}
	}
}

func TestSlotRoundTrip(t *testing.T) {
	id := format.Identity{1, 2}
	h := heads()["update"]
	want := format.SlotOf(&h, 99, format.PlaceOf(3, 500))
	var b [format.SlotSize]byte
	want.Encode(b[:], id, 17)
	if got, state := format.ParseSlot(b[:], id, 17); state != format.SlotGood || got != want || got.Size() != h.Size() {
		t.Errorf("%+v, %d", got, state)
	}
	if _, state := format.ParseSlot(b[:], id, 18); state != format.SlotBad {
		t.Error("the slot is accepted under another number")
	}
	hole := format.Slot{}
	hole.Encode(b[:], id, 17)
	if _, state := format.ParseSlot(b[:], id, 17); state != format.SlotAbsent {
		t.Error("a hole isn't one")
	}
}

func TestSegmentHeaderRoundTrip(t *testing.T) {
	want := format.SegmentHeader{
		ID: format.Identity{1, 2}, Number: 3, Kind: format.Kind{Sequential: true, IDSize: 8},
		State: format.FileState{File: 1, Data: 2, Index: 3, Prev: 4}, Next: 5, Boot: 6, Synced: format.PlaceOf(2, 9), SuspectBelow: 4,
	}
	b := want.Append(nil)
	if got, ok := format.ParseSegmentHeader(b); !ok || got != want || len(b) != format.SegmentHeaderSize {
		t.Errorf("%+v, %t, %d bytes", got, ok, len(b))
	}
	b[40] ^= 16
	if _, ok := format.ParseSegmentHeader(b); ok {
		t.Error("a wrong bit isn't detected")
	}
	if got, ok := format.RepairSegmentHeader(b); !ok || got != want {
		t.Errorf("repaired: %+v, %t", got, ok)
	}
}
