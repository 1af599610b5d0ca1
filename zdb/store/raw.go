package store

import "cmp"

// Raw answers the entry at an offset of a data file: ErrEOF behind the file's
// end, ErrOffset if none begins there or there is no such file, ErrGone.
func (s *Store) Raw(file, offset uint32) (RawEntry, error) {
	if file > s.state.file {
		return RawEntry{}, ErrOffset
	}
	if file == s.state.file && offset >= s.state.data {
		return RawEntry{}, ErrEOF
	}
	at, err := s.rawSlot(Position{file, offset})
	if err == nil && at == 0 {
		at, err = s.rawScan(Position{file, offset})
	}
	if err != nil {
		return RawEntry{}, err
	}
	return s.rawAt(at)
}

func (s *Store) rawAt(at place) (RawEntry, error) {
	b, err := s.wal.read(at, headMost)
	if err != nil {
		return RawEntry{}, err
	}
	h, _, _, ok := parseHead(b, s.wal.mask(at))
	if !ok {
		return RawEntry{}, s.damage(at, "its head")
	}
	if b, err = s.wal.read(at, int(h.size())); err != nil {
		return RawEntry{}, err
	}
	h, key, n, ok := parseHead(b, s.wal.mask(at))
	if !ok || len(b) < int(h.size()) || payloadCRC(b[n:]) != h.crc && h.kind == kindPut {
		return RawEntry{}, s.damage(at, "its payload")
	}
	return RawEntry{Key: key, Previous: h.prev, CRC: h.crc, Deleted: h.kind == kindDelete, Time: h.time, Value: b[n:]}, nil
}

// rawSlot looks for a version by the slot that was made when it was written.
// Zero: it isn't found like this.
func (s *Store) rawSlot(p Position) (place, error) {
	from, to := uint64(0), s.index.next
	for from < to {
		mid := (from + to) / 2
		number, sl, found, err := s.index.goodFrom(mid, to)
		if err != nil {
			return 0, err
		}
		switch made := (Position{sl.index.File, sl.data}); {
		case !found || p.before(made):
			to = mid
		case made.before(p):
			from = number + 1
		default:
			return s.rawVersion(number, &sl, p)
		}
	}
	return 0, nil
}

// rawVersion looks among the versions of a slot's entry for the one at p.
func (s *Store) rawVersion(number uint64, sl *slot, p Position) (place, error) {
	if sl.flags&slotOld != 0 {
		// The slot was made by an update of another one.
		own, state, err := s.index.get(sl.hash, 0)
		if err != nil || state != slotGood {
			return 0, err
		}
		*sl = own
	}
	for range 1 << 20 {
		h, ok, err := s.headAt(sl.at)
		if err != nil || !ok {
			return 0, err
		}
		if h.data == p {
			return sl.at, nil
		}
		if !s.cfg.Sequential || !h.long {
			return 0, nil
		}
		var state slotState
		if *sl, state, err = s.index.get(h.other.slot, 0); err != nil || state != slotGood {
			return 0, err
		}
	}
	return 0, nil
}

func (s *Store) headAt(at place) (head, bool, error) {
	b, err := s.wal.read(at, headMost)
	if err != nil {
		return head{}, false, err
	}
	h, _, _, ok := parseHead(b, s.wal.mask(at))
	return h, ok, nil
}

// rawScan looks for a record in the segment in which it was first written:
// deletions have no slot.
func (s *Store) rawScan(p Position) (place, error) {
	if err := s.commit(nil); err != nil {
		return 0, err
	}
	order := s.wal.order
	if n := len(order); n > 0 && order[n-1].size == 0 {
		order = order[:n-1] // begun, and nothing written yet
	}
	from, to := 0, len(order)
	for from < to {
		mid := (from + to) / 2
		h, ok, err := s.headerOf(order[mid])
		for at := mid; !ok && err == nil && at > from; {
			// A damaged header says nothing: ask the one before it.
			at--
			h, ok, err = s.headerOf(order[at])
		}
		switch {
		case err != nil:
			return 0, err
		case ok && p.before(Position{h.state.file, h.state.data}):
			to = mid
		default:
			from = mid + 1
		}
	}
	if from == 0 {
		return 0, ErrOffset
	}
	return s.rawIn(order[from-1], p)
}

func (s *Store) rawIn(seg *segment, p Position) (place, error) {
	f, err := s.shared.get(&seg.handle, false)
	if err != nil {
		return 0, err
	}
	scan := &scanner{f: f, number: seg.number, id: s.wal.id, size: seg.size, off: segmentHeader}
	if s.rawLast.segment() == seg.number && !p.before(s.rawLastAt) {
		scan.off = int64(s.rawLast.offset())
	}
	for {
		r, ok, err := scan.next(false)
		if err != nil {
			return 0, err
		}
		switch {
		case !ok && scan.off >= seg.size:
			if p.File < s.state.file {
				return 0, ErrEOF
			}
			return 0, ErrOffset
		case !ok:
			if found, err := scan.find(); err != nil || !found {
				return 0, cmp.Or(err, ErrOffset)
			}
		case r.moved || r.kind == kindRotate || r.data.before(p):
		case r.data == p:
			s.rawLast, s.rawLastAt = r.at, p
			return r.at, nil
		case r.data.File > p.File:
			return 0, ErrEOF
		default:
			return 0, ErrOffset
		}
	}
}
