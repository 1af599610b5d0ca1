package keytable_test

import (
	"math/rand/v2"
	"testing"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/keytable"
)

// TestKeyTable fills one shard of the table until it has memory of its own.
func TestKeyTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	k := &keytable.Table{}
	defer k.Close()
	want := map[uint64]uint64{} // place by hash
	var hashes []uint64
	for i := range uint64(60_000) {
		switch {
		case len(hashes) > 0 && r.IntN(4) == 0:
			at := r.IntN(len(hashes))
			h := hashes[at]
			hashes[at] = hashes[len(hashes)-1]
			hashes = hashes[:len(hashes)-1]
			k.Remove(h, format.Place(want[h]))
			delete(want, h)
		default:
			h := r.Uint64() &^ 0xff // all in one shard
			if _, ok := want[h]; ok {
				continue
			}
			want[h] = i + 1
			hashes = append(hashes, h)
			if !k.MakeRoom(h) {
				t.Fatal("no memory")
			}
			k.Add(h, format.Place(i+1), 1)
		}
	}
	for h, at := range want {
		if k.Locate(h, format.Place(at)) == nil {
			t.Fatalf("%#x is missing", h)
		}
		if k.Locate(h, format.Place(at+1)) != nil {
			t.Fatalf("%#x is there twice", h)
		}
	}
	if k.Count != uint64(len(want)) {
		t.Errorf("%d keys, want %d", k.Count, len(want))
	}
}
