package index

import (
	"sort"

	"github.com/croft-edge/croft/zdb/store/format"
)

// nth answers the slot at a place of a chunk, from its file or from memory.
func (x *Index) nth(c *Chunk, at, ahead int) (uint64, format.Slot, format.SlotState, error) {
	if !c.Packed {
		number := c.Number*x.ChunkSlots + uint64(at)
		s, state, err := x.Get(number, ahead)
		return number, s, state, err
	}
	b, err := x.read(c, at, ahead)
	if err != nil {
		return 0, format.Slot{}, format.SlotBad, err
	}
	number := x.NumberOf(c, at, b)
	if number >= x.Next {
		if x.Bad != nil {
			x.Bad(number)
		}
		return number, format.Slot{}, format.SlotBad, nil
	}
	if m := x.bytesOf(number); m != nil {
		b = m
	}
	s, state := x.parse(b, number)
	return number, s, state, nil
}

// Places is how many places a chunk has.
func (x *Index) Places(c *Chunk) int {
	if c.Packed {
		return int(c.Count)
	}
	return int(min(x.Next-c.Number*x.ChunkSlots, x.ChunkSlots))
}

func (x *Index) lives(c *Chunk, number uint64, s *format.Slot, state format.SlotState) bool {
	if state != format.SlotGood {
		return false
	}
	if !x.DeadBits {
		return !s.Dead()
	}
	return !c.IsDead(number - c.Number*x.ChunkSlots)
}

// LiveFrom answers the first live slot whose number is at least number.
func (x *Index) LiveFrom(number uint64) (uint64, format.Slot, bool, error) {
	i := sort.Search(len(x.List), func(i int) bool { return (x.List[i].Number+1)*x.ChunkSlots > number })
	for ; i < len(x.List); i++ {
		c := x.List[i]
		if c.Live == 0 {
			continue
		}
		low := max(number, c.Number*x.ChunkSlots) - c.Number*x.ChunkSlots
		if x.DeadBits {
			var ok bool
			if low, ok = c.nextLive(low, min(x.ChunkSlots, x.Next-c.Number*x.ChunkSlots)); !ok {
				continue
			}
		}
		at, err := x.placeFrom(c, low)
		if err != nil {
			return 0, format.Slot{}, false, err
		}
		for n := x.Places(c); at < n; at++ {
			found, s, state, err := x.nth(c, at, WindowSlots)
			if err != nil || x.lives(c, found, &s, state) {
				return found, s, err == nil, err
			}
		}
	}
	return 0, format.Slot{}, false, nil
}

// LiveBelow answers the last live slot whose number is below number.
func (x *Index) LiveBelow(number uint64) (uint64, format.Slot, bool, error) {
	i := sort.Search(len(x.List), func(i int) bool { return x.List[i].Number*x.ChunkSlots >= number })
	for i--; i >= 0; i-- {
		c := x.List[i]
		if c.Live == 0 {
			continue
		}
		low := min(number-c.Number*x.ChunkSlots, x.ChunkSlots)
		if x.DeadBits {
			last, ok := c.prevLive(min(low, x.Next-c.Number*x.ChunkSlots))
			if !ok {
				continue
			}
			low = last + 1
		}
		at, err := x.placeFrom(c, low)
		if err != nil {
			return 0, format.Slot{}, false, err
		}
		for at--; at >= 0; at-- {
			// Read-ahead goes forward: when walking back, begin the window before the slot.
			if from := max(0, at-WindowSlots+1); !x.windowHas(c, at) && at < x.InFile(c) {
				if _, err := x.read(c, from, WindowSlots); err != nil {
					return 0, format.Slot{}, false, err
				}
			}
			found, s, state, err := x.nth(c, at, 0)
			if err != nil || x.lives(c, found, &s, state) {
				return found, s, err == nil, err
			}
		}
	}
	return 0, format.Slot{}, false, nil
}

// start answers the position of a chunk's first slot.
func (x *Index) start(c *Chunk) (format.Position, bool, error) {
	if c.firstKnown {
		return c.first, true, nil
	}
	for at, n := 0, x.Places(c); at < n; at++ {
		_, s, state, err := x.nth(c, at, WindowSlots)
		if err != nil {
			return format.Position{}, false, err
		}
		if state == format.SlotGood {
			// Not remembered for a chunk whose first slots may still be undone.
			c.first, c.firstKnown = s.Index, c.Number*x.ChunkSlots < x.Written
			return s.Index, true, nil
		}
	}
	return format.Position{}, false, nil
}

// Locate answers the number of the slot at a position.
func (x *Index) Locate(p format.Position) (uint64, bool, error) {
	from, to := 0, len(x.List)
	for from < to {
		mid := (from + to) / 2
		first, some, err := x.start(x.List[mid])
		if err != nil {
			return 0, false, err
		}
		if some && p.Before(first) {
			to = mid
		} else {
			from = mid + 1
		}
	}
	// A chunk without slots says nothing: the ones before it may have the position.
	for i := from - 1; i >= 0; i-- {
		number, found, err := x.locateIn(x.List[i], p)
		if err != nil || found {
			return number, found, err
		}
		if _, some, err := x.start(x.List[i]); some || err != nil {
			return 0, false, err
		}
	}
	return 0, false, nil
}

func (x *Index) locateIn(c *Chunk, p format.Position) (uint64, bool, error) {
	from, to := 0, x.Places(c)
	for from < to {
		mid := (from + to) / 2
		at := mid
		var number uint64
		var s format.Slot
		state := format.SlotAbsent
		// Holes have no position: take the next that has one.
		for ; at < to; at++ {
			var err error
			ahead := 0
			if to-from <= WindowSlots {
				ahead = to - at
			}
			if number, s, state, err = x.nth(c, at, ahead); err != nil {
				return 0, false, err
			}
			if state == format.SlotGood {
				break
			}
		}
		switch {
		case state != format.SlotGood:
			to = mid
		case s.Index == p:
			return number, true, nil
		case s.Index.Before(p):
			from = at + 1
		default:
			to = mid
		}
	}
	return 0, false, nil
}

// GoodFrom answers the first slot that isn't a hole with a number from number on, below end.
func (x *Index) GoodFrom(number, end uint64) (uint64, format.Slot, bool, error) {
	i := sort.Search(len(x.List), func(i int) bool { return (x.List[i].Number+1)*x.ChunkSlots > number })
	for ; i < len(x.List) && x.List[i].Number*x.ChunkSlots < end; i++ {
		c := x.List[i]
		at, err := x.placeFrom(c, max(number, c.Number*x.ChunkSlots)-c.Number*x.ChunkSlots)
		if err != nil {
			return 0, format.Slot{}, false, err
		}
		for n := x.Places(c); at < n; at++ {
			found, s, state, err := x.nth(c, at, 0)
			if err != nil || found >= end {
				return 0, format.Slot{}, false, err
			}
			if state == format.SlotGood {
				return found, s, true, nil
			}
		}
	}
	return 0, format.Slot{}, false, nil
}

// Below answers the number of the last slot whose position is before p.
func (x *Index) Below(p format.Position) (uint64, bool, error) {
	from, to := 0, len(x.List)
	for from < to {
		mid := (from + to) / 2
		first, some, err := x.start(x.List[mid])
		if err != nil {
			return 0, false, err
		}
		if some && !first.Before(p) {
			to = mid
		} else {
			from = mid + 1
		}
	}
	// A chunk without slots has none before p either.
	for i := from - 1; i >= 0; i-- {
		number, found, err := x.belowIn(x.List[i], p)
		if err != nil || found {
			return number, found, err
		}
	}
	return 0, false, nil
}

func (x *Index) belowIn(c *Chunk, p format.Position) (last uint64, found bool, err error) {
	from, to := 0, x.Places(c)
	for from < to {
		mid := (from + to) / 2
		at, number, s, state := mid, uint64(0), format.Slot{}, format.SlotAbsent
		for ; at < to && state != format.SlotGood; at++ { // holes have no position
			if number, s, state, err = x.nth(c, at, 0); err != nil {
				return 0, false, err
			}
		}
		switch {
		case state != format.SlotGood:
			to = mid
		case s.Index.Before(p):
			last, found = number, true
			from = at
		default:
			to = mid
		}
	}
	return last, found, nil
}
