package store

import "sort"

// Walking the slots in their order, and finding one by its position.

// before says whether p comes before q.
func (p Position) before(q Position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// numberOf is the number of the slot at a place of a chunk's file whose low 16 bits are
// known when it is a packed one.
func (x *index) numberOf(c *chunk, at int, b []byte) uint64 {
	if !c.packed {
		return c.number*x.per + uint64(at)
	}
	return c.number*x.per + uint64(x.within(c, slotNumber(b)))
}

// nth answers the slot at a place of a chunk, those that aren't in its file too.
func (x *index) nth(c *chunk, at, ahead int) (uint64, slot, slotState, error) {
	if !c.packed {
		number := c.number*x.per + uint64(at)
		s, state, err := x.get(number, ahead)
		return number, s, state, err
	}
	b, err := x.read(c, at, ahead)
	if err != nil {
		return 0, slot{}, slotBad, err
	}
	number := x.numberOf(c, at, b)
	if number >= x.next {
		if x.bad != nil {
			x.bad(number)
		}
		return number, slot{}, slotBad, nil
	}
	if m := x.bytesOf(number); m != nil {
		b = m
	}
	s, state := x.parse(b, number)
	return number, s, state, nil
}

// places is how many places a chunk has.
func (x *index) places(c *chunk) int {
	if c.packed {
		return int(c.count)
	}
	return int(min(x.next-c.number*x.per, x.per))
}

// placeFrom is the first place of a chunk whose slot has a number of at least low.
func (x *index) placeFrom(c *chunk, low uint64) (int, error) {
	if !c.packed {
		return int(min(low, uint64(x.places(c)))), nil
	}
	if low >= x.per {
		return int(c.count), nil
	}
	at, _, err := x.search(c, uint16(low))
	return at, err
}

func (x *index) lives(c *chunk, number uint64, s *slot, state slotState) bool {
	if state != slotGood {
		return false
	}
	if x.sequential {
		return !s.dead()
	}
	return !c.isDead(number - c.number*x.per)
}

// liveFrom answers the first live slot whose number is at least number.
func (x *index) liveFrom(number uint64) (uint64, slot, bool, error) {
	i := sort.Search(len(x.chunks), func(i int) bool { return (x.chunks[i].number+1)*x.per > number })
	for ; i < len(x.chunks); i++ {
		c := x.chunks[i]
		if c.live == 0 {
			continue
		}
		low := max(number, c.number*x.per) - c.number*x.per
		if !x.sequential {
			var ok bool
			if low, ok = c.nextLive(low, min(x.per, x.next-c.number*x.per)); !ok {
				continue
			}
		}
		at, err := x.placeFrom(c, low)
		if err != nil {
			return 0, slot{}, false, err
		}
		for n := x.places(c); at < n; at++ {
			found, s, state, err := x.nth(c, at, windowSlots)
			if err != nil || x.lives(c, found, &s, state) {
				return found, s, err == nil, err
			}
		}
	}
	return 0, slot{}, false, nil
}

// liveBelow answers the last live slot whose number is below number.
func (x *index) liveBelow(number uint64) (uint64, slot, bool, error) {
	i := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].number*x.per >= number })
	for i--; i >= 0; i-- {
		c := x.chunks[i]
		if c.live == 0 {
			continue
		}
		low := min(number-c.number*x.per, x.per)
		if !x.sequential {
			last, ok := c.prevLive(min(low, x.next-c.number*x.per))
			if !ok {
				continue
			}
			low = last + 1
		}
		at, err := x.placeFrom(c, low)
		if err != nil {
			return 0, slot{}, false, err
		}
		for at--; at >= 0; at-- {
			// What is read ahead lies behind: going back, begin before.
			if from := max(0, at-windowSlots+1); !x.windowHas(c, at) && at < x.inFile(c) {
				if _, err := x.read(c, from, windowSlots); err != nil {
					return 0, slot{}, false, err
				}
			}
			found, s, state, err := x.nth(c, at, 0)
			if err != nil || x.lives(c, found, &s, state) {
				return found, s, err == nil, err
			}
		}
	}
	return 0, slot{}, false, nil
}

func (x *index) windowHas(c *chunk, at int) bool {
	w := &x.window
	return w.c == c && at >= w.from && at < w.from+w.n
}

// start answers the position of a chunk's first slot.
func (x *index) start(c *chunk) (Position, bool, error) {
	if c.firstKnown {
		return c.first, true, nil
	}
	for at, n := 0, x.places(c); at < n; at++ {
		_, s, state, err := x.nth(c, at, windowSlots)
		if err != nil {
			return Position{}, false, err
		}
		if state == slotGood {
			// A chunk that is empty, or whose first slots may be taken back, will be asked again.
			c.first, c.firstKnown = s.index, c.number*x.per < x.tailFrom
			return s.index, true, nil
		}
	}
	return Position{}, false, nil
}

// locate answers the number of the slot at a position.
func (x *index) locate(p Position) (uint64, bool, error) {
	from, to := 0, len(x.chunks)
	for from < to {
		mid := (from + to) / 2
		first, some, err := x.start(x.chunks[mid])
		if err != nil {
			return 0, false, err
		}
		if some && p.before(first) {
			to = mid
		} else {
			from = mid + 1
		}
	}
	// A chunk without slots says nothing: the ones before it may have the position.
	for i := from - 1; i >= 0; i-- {
		number, found, err := x.locateIn(x.chunks[i], p)
		if err != nil || found {
			return number, found, err
		}
		if _, some, err := x.start(x.chunks[i]); some || err != nil {
			return 0, false, err
		}
	}
	return 0, false, nil
}

func (x *index) locateIn(c *chunk, p Position) (uint64, bool, error) {
	from, to := 0, x.places(c)
	for from < to {
		mid := (from + to) / 2
		at := mid
		var number uint64
		var s slot
		state := slotAbsent
		// Holes have no position: take the next that has one.
		for ; at < to; at++ {
			var err error
			ahead := 0
			if to-from <= windowSlots {
				ahead = to - at
			}
			if number, s, state, err = x.nth(c, at, ahead); err != nil {
				return 0, false, err
			}
			if state == slotGood {
				break
			}
		}
		switch {
		case state != slotGood:
			to = mid
		case s.index == p:
			return number, true, nil
		case s.index.before(p):
			from = at + 1
		default:
			to = mid
		}
	}
	return 0, false, nil
}

// goodFrom answers the first slot that isn't a hole with a number from number on, below end.
func (x *index) goodFrom(number, end uint64) (uint64, slot, bool, error) {
	i := sort.Search(len(x.chunks), func(i int) bool { return (x.chunks[i].number+1)*x.per > number })
	for ; i < len(x.chunks) && x.chunks[i].number*x.per < end; i++ {
		c := x.chunks[i]
		at, err := x.placeFrom(c, max(number, c.number*x.per)-c.number*x.per)
		if err != nil {
			return 0, slot{}, false, err
		}
		for n := x.places(c); at < n; at++ {
			found, s, state, err := x.nth(c, at, 0)
			if err != nil || found >= end {
				return 0, slot{}, false, err
			}
			if state == slotGood {
				return found, s, true, nil
			}
		}
	}
	return 0, slot{}, false, nil
}
