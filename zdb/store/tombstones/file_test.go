package tombstones_test

import (
	"os"
	"slices"
	"testing"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/tombstones"
)

func add(t *testing.T, f *tombstones.File, segments map[uint32]bool, places ...format.Place) {
	t.Helper()
	w := f.Plan(places, segments)
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if f.End(w) != (len(places) > 0) {
		t.Fatal("End doesn't say whether the places are in the file")
	}
}

func TestPlacesSurviveReopen(t *testing.T) {
	dir := t.TempDir()
	f := tombstones.New(disk.Real{}, dir)
	add(t, f, nil, format.PlaceOf(2, 7), format.PlaceOf(1, 9))
	add(t, f, nil)
	add(t, f, nil, format.PlaceOf(1, 8))
	again := tombstones.New(disk.Real{}, dir)
	if damaged, err := again.Check(f.Bytes); err != nil || damaged || again.Bytes != f.Bytes {
		t.Fatal(damaged, err, again.Bytes, f.Bytes)
	}
	got, err := again.Load()
	if want := []format.Place{format.PlaceOf(1, 8), format.PlaceOf(1, 9), format.PlaceOf(2, 7)}; err != nil || !slices.Equal(got, want) {
		t.Fatal(got, err)
	}
}

// A file that has grown much is written anew, with the places in the segments that stay.
func TestGrownFileIsRewritten(t *testing.T) {
	f := tombstones.New(disk.Real{}, t.TempDir())
	var old, young []format.Place
	for i := range uint32(100_000) {
		old, young = append(old, format.PlaceOf(1+i%2, i)), append(young, format.PlaceOf(3, i))
	}
	add(t, f, nil, old...)
	add(t, f, map[uint32]bool{2: true, 3: true}, young...)
	got, err := f.Load()
	if err != nil || len(got) != len(old)/2+len(young) || got[0].Segment() != 2 {
		t.Error(len(got), err)
	}
}

func TestDamagedBlock(t *testing.T) {
	f := tombstones.New(disk.Real{}, t.TempDir())
	add(t, f, nil, format.PlaceOf(1, 1))
	add(t, f, nil, format.PlaceOf(1, 2))
	b, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	b[17] ^= 1
	if err := os.WriteFile(f.Path(), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if damaged, err := f.Check(int64(len(b))); err != nil || !damaged {
		t.Error(damaged, err)
	}
	if got, err := f.Load(); err != nil || len(got) != 1 {
		t.Error(got, err)
	}
}
