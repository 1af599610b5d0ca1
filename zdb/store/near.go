package store

// Near answers a stand-in for an entry at a position that is no longer kept, to
// go on from with Next or Prev and for nothing else. False if no entry can have
// been there: none is missing between its neighbours.
func (s *Store) Near(p Position) (Entry, bool, error) {
	st := s.Stats()
	if p.Offset < s.cfg.Layout.IndexHeader || !p.before(Position{st.File, st.IndexOffset}) {
		return Entry{}, false, nil
	}
	before, some, err := s.index.below(p)
	if err != nil {
		return Entry{}, false, err
	}
	missing := uint64(0)
	if some {
		missing = before + 1
	}
	after, _, some, err := s.index.goodFrom(missing, s.index.next)
	if err != nil {
		return Entry{}, false, err
	}
	if some && after == missing || !some && missing == s.index.next {
		return Entry{}, false, nil
	}
	return Entry{Deleted: true, Position: p, slot: missing}, true, nil
}

// below answers the number of the last slot whose position is before p.
func (x *index) below(p Position) (uint64, bool, error) {
	from, to := 0, len(x.chunks)
	for from < to {
		mid := (from + to) / 2
		first, some, err := x.start(x.chunks[mid])
		if err != nil {
			return 0, false, err
		}
		if some && !first.before(p) {
			to = mid
		} else {
			from = mid + 1
		}
	}
	// One without slots has none before p either.
	for i := from - 1; i >= 0; i-- {
		number, found, err := x.belowIn(x.chunks[i], p)
		if err != nil || found {
			return number, found, err
		}
	}
	return 0, false, nil
}

func (x *index) belowIn(c *chunk, p Position) (last uint64, found bool, err error) {
	from, to := 0, x.places(c)
	for from < to {
		mid := (from + to) / 2
		at, number, s, state := mid, uint64(0), slot{}, slotAbsent
		for ; at < to && state != slotGood; at++ { // holes have no position
			if number, s, state, err = x.nth(c, at, 0); err != nil {
				return 0, false, err
			}
		}
		switch {
		case state != slotGood:
			to = mid
		case s.index.before(p):
			last, found = number, true
			from = at
		default:
			to = mid
		}
	}
	return last, found, nil
}
