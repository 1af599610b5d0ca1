package discard

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWhole: only what lies in the request with all of its extent is chosen.
func TestWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		items   []extent
		request span
		want    []span
	}{
		"nothing there":                        {nil, span{0, 100}, nil},
		"all of it":                            {[]extent{{0, 100, 0, 100}}, span{0, 100}, []span{{0, 100}}},
		"more than it":                         {[]extent{{10, 10, 0, 10}}, span{0, 100}, []span{{10, 20}}},
		"its begin is before":                  {[]extent{{0, 100, 0, 100}}, span{1, 100}, nil},
		"its end is behind":                    {[]extent{{0, 100, 0, 100}}, span{0, 99}, nil},
		"its rest on the disk is behind":       {[]extent{{0, 50, 0, 100}}, span{0, 99}, nil},
		"its rest on the disk is before":       {[]extent{{50, 50, 50, 100}}, span{1, 100}, nil},
		"two parts of one extent":              {[]extent{{0, 50, 0, 100}, {50, 50, 50, 100}}, span{0, 100}, []span{{0, 100}}},
		"neighbours are one":                   {[]extent{{0, 10, 0, 10}, {10, 10, 0, 10}, {30, 10, 0, 10}}, span{0, 40}, []span{{0, 20}, {30, 40}}},
		"a neighbour that stays":               {[]extent{{0, 10, 0, 10}, {10, 10, 0, 30}, {20, 10, 0, 10}}, span{0, 30}, []span{{0, 10}, {20, 30}}},
		"it would begin before the file":       {[]extent{{10, 10, 20, 100}}, span{0, 1000}, nil},
		"numbers that overflow":                {[]extent{{10, ^uint64(0), 0, ^uint64(0)}, {20, 10, 0, ^uint64(0)}, {30, ^uint64(0) - 5, 0, 5}}, span{0, 1000}, nil},
		"an item behind the request":           {[]extent{{100, 10, 0, 10}}, span{0, 100}, nil},
		"an item before the request":           {[]extent{{0, 10, 0, 10}}, span{50, 100}, nil},
		"an item longer than its extent's end": {[]extent{{0, 100, 0, 10}}, span{0, 50}, nil},
	} {
		if got := whole(c.items, c.request, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// block is a block of a model's file: its extent, and its place in that. Extent 0 is a hole.
type block struct{ extent, place int }

// model is a file that is written in place, as btrfs keeps it: what is written into holes becomes extents, which stay on the disk while
// one block of them is in the file.
type model struct {
	blocks []block
	// sizes are those of all extents that ever were, in blocks, from 1 on.
	sizes []int
}

// write makes extents of the holes in a part of the file, none longer than most blocks.
func (m *model) write(from, to, most int) {
	for at := from; at < to; at++ {
		if m.blocks[at].extent != 0 {
			continue
		}
		n := 0
		m.sizes = append(m.sizes, 0)
		for ; n < most && at+n < to && m.blocks[at+n].extent == 0; n++ {
			m.blocks[at+n] = block{len(m.sizes), n}
		}
		m.sizes[len(m.sizes)-1] = n
		at += n - 1
	}
}

// items are the file's items with keys in a part of it. Parts of an extent are items of their own where cut says so, as in a tree.
func (m *model) items(s span, cut func() bool) (out []extent) {
	for at, b := range m.blocks {
		if b.extent == 0 {
			continue
		}
		if n := len(out) - 1; at > 0 && n >= 0 && m.blocks[at-1] == (block{b.extent, b.place - 1}) && !cut() {
			out[n].length++
			continue
		}
		out = append(out, extent{uint64(at), 1, uint64(b.place), uint64(m.sizes[b.extent-1])})
	}
	return slices.DeleteFunc(out, func(e extent) bool { return e.at < s.from || e.at >= s.to })
}

// used are the blocks on the disk, live those in the file.
func (m *model) used() (used, live int) {
	seen := map[int]bool{}
	for _, b := range m.blocks {
		if b.extent == 0 {
			continue
		}
		live++
		if !seen[b.extent] {
			used += m.sizes[b.extent-1]
		}
		seen[b.extent] = true
	}
	return used, live
}

// TestSpaceNeverExceedsTheSize: after any sequence of writes and discards no extent is kept of which a part is given up, no block outside of a
// discard is lost, and a discard of everything gives everything back.
func TestSpaceNeverExceedsTheSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := model{blocks: make([]block, rapid.IntRange(1, 60).Draw(t, "size"))}
		discard := func(s span) {
			before := slices.Clone(m.blocks)
			for _, p := range whole(m.items(s, func() bool { return rapid.Bool().Draw(t, "cut") }), s, nil) {
				if p.from < s.from || p.to > s.to || p.from >= p.to {
					t.Fatalf("a discard of %v punches %v", s, p)
				}
				clear(m.blocks[p.from:p.to])
			}
			for at, b := range before {
				if (at < int(s.from) || at >= int(s.to)) && m.blocks[at] != b {
					t.Fatalf("a discard of %v changes block %d", s, at)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			from := rapid.IntRange(0, len(m.blocks)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(m.blocks)).Draw(t, "to")
			if rapid.Bool().Draw(t, "write") {
				m.write(from, to, rapid.IntRange(1, 20).Draw(t, "most"))
			} else {
				discard(span{uint64(from), uint64(to)})
			}
			if used, live := m.used(); used != live {
				t.Fatalf("%d blocks of %d are in the file, %d on the disk", live, len(m.blocks), used)
			}
		}
		discard(span{0, uint64(len(m.blocks))})
		if used, _ := m.used(); used != 0 {
			t.Fatalf("when all is discarded, %d blocks are on the disk", used)
		}
	})
}
