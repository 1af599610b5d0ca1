package store

import "github.com/pkg/errors"

// cleaner copies what is needed of a segment to the end of the log, so that the segment can go. A
// segment goes when a checkpoint knows of the copies.
type cleaner struct {
	victim *segment
	scan   *scanner
	done   []*segment // waiting for a checkpoint
	kills  []place    // see kills.go
	below  uint32     // no younger segment may be chosen: it may hold copies of those in done
}

// cleanerMark is where a cleaner was.
type cleanerMark struct {
	victim *segment
	off    int64
	done   int
	kills  int
}

const (
	// doneMost is how many segments may wait for a checkpoint.
	doneMost = 4
	// moveMost is how much is cleaned in one go while clients wait, in bytes.
	moveMost = 8 << 20
)

func (c *cleaner) mark() cleanerMark {
	m := cleanerMark{victim: c.victim, done: len(c.done), kills: len(c.kills)}
	if c.victim != nil {
		m.off = c.scan.off
	}
	return m
}

func (c *cleaner) back(m cleanerMark) {
	if c.victim != m.victim && m.victim != nil {
		c.scan = &scanner{number: m.victim.number, size: m.victim.size, id: c.scan.id}
	}
	c.victim, c.done, c.kills = m.victim, c.done[:m.done], c.kills[:m.kills]
	if c.victim != nil {
		c.scan.off = m.off
	}
}

// assist cleans in proportion to what was written, when space is needed.
func (s *Store) assist(written int) {
	if !s.pressed() {
		return
	}
	n := int64(64 << 10)
	if v := s.cleaner.victim; v != nil {
		// So much must be looked at for each byte that is won, and half of it more.
		n += int64(written) * 3 / 2 * v.size / max(v.size-v.live, v.size/32, 1)
	}
	s.clean(int(min(n, moveMost)))
}

// clean looks at about budget bytes of the segment that is cleaned; false if there is nothing to do.
func (s *Store) clean(budget int) bool {
	c := &s.cleaner
	if s.broken != nil || s.failed != nil || !s.pressed() {
		return false
	}
	if len(c.done) >= doneMost {
		s.wanted = true
		return false
	}
	if c.victim == nil {
		if !s.choose() {
			s.wanted = s.wanted || len(c.done) > 0 || s.packable()
			return false
		}
	}
	f, err := s.shared.get(&c.victim.handle, false)
	if err != nil {
		return s.giveUp(err)
	}
	c.scan.f = f
	for end := c.scan.off + int64(budget); c.scan.off < end; {
		r, ok, err := c.scan.next(true)
		switch {
		case err != nil:
			return s.giveUp(err)
		case !ok && c.scan.off < c.victim.size:
			return s.giveUp(s.damage(r.at, "its head"))
		case !ok:
			c.done = append(c.done, c.victim)
			c.victim = nil
			s.wanted = true
			return true
		}
		err = s.cleanRecord(&r)
		if errors.Is(err, errNoRoom) {
			c.victim = nil
			return false
		}
		if err != nil {
			return s.giveUp(err)
		}
		if s.failed != nil {
			return false
		}
	}
	return true
}

// giveUp leaves a segment as it is: what can't be read of it may be needed.
func (s *Store) giveUp(err error) bool {
	v := s.cleaner.victim
	s.cfg.Log.Error().Err(err).Str("file", v.path).Msg("cannot clean a segment, it is kept")
	v.damaged = true
	s.cleaner.victim = nil
	return true
}

// choose picks the segment of which the least is needed.
func (s *Store) choose() bool {
	c := &s.cleaner
	if len(c.done) == 0 {
		c.below = s.wal.active.number
	}
	best := s.thinnest()
	if best == nil && s.tight != nil && s.useActive() {
		best = s.thinnest()
	}
	if best == nil || s.tight != nil && !s.canMove(best.live) {
		return false
	}
	if len(c.done) > 0 && s.cfg.MaxSize > 0 && s.used()+best.live > s.hard() {
		return false // those that are done must go first
	}
	c.victim, c.scan = best, &scanner{number: best.number, id: s.wal.id, size: best.size, off: segmentHeader}
	return true
}

// useActive goes on in the reserve, so that the active segment can be cleaned: the disk is full, and it may
// be all there is.
func (s *Store) useActive() bool {
	a := s.wal.active
	if a == nil || len(s.cleaner.done) > 0 || a.damaged || a.size == 0 || 2*a.live > a.size || s.have < a.live+segmentHeader {
		return false
	}
	if s.useReserve(a.live+segmentHeader) != nil {
		return false
	}
	s.cleaner.below = s.wal.active.number
	return true
}

// thinnest answers the segment of which the least is needed, nil if none is worth it.
func (s *Store) thinnest() *segment {
	c := &s.cleaner
	worth := int64(15)
	if s.tight != nil {
		worth = 8 // the copies use up the reserve
	}
	var best *segment
	for _, seg := range s.wal.order {
		if seg.number >= c.below || seg.damaged || seg == s.wal.active || 16*seg.live > worth*seg.size || contains(c.done, seg) {
			continue
		}
		if best == nil || seg.live*best.size < best.live*seg.size {
			best = seg
		}
	}
	return best
}

func contains(all []*segment, s *segment) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

// cleanRecord copies a record that is needed, and keeps what one says that isn't.
func (s *Store) cleanRecord(r *scanned) error {
	if r.kind == kindPut {
		alive, err := s.move(r)
		if err != nil || alive {
			return err
		}
	}
	if r.long && r.other.at.segment() != r.at.segment() && s.wal.segments[r.other.at.segment()] != nil {
		s.cleaner.kills = append(s.cleaner.kills, r.other.at)
	}
	return nil
}

// move copies a record to the end of the log if it is a live entry's.
func (s *Store) move(r *scanned) (alive bool, err error) {
	c := change{kind: userMove, old: r.at, oldSize: r.size(), size: r.size(), slot: r.slot}
	var sl slot
	var ks *keySlot
	if s.cfg.Sequential {
		var state slotState
		c.kind = seqMove
		sl, state, err = s.index.get(r.slot, windowSlots)
		if err != nil || state != slotGood || sl.dead() || sl.at != r.at {
			return false, err
		}
	} else {
		c.hash = s.wal.id.hash(r.key)
		if ks = s.keys.locate(c.hash, r.at); ks == nil {
			return false, nil
		}
		sl = slotOf(&r.head, c.hash, 0)
	}
	if payloadCRC(r.payload) != r.crc {
		return true, s.damage(r.at, "its payload")
	}
	if !s.wal.fits(int64(r.size())) || len(s.wal.buf) > bufMost {
		if err := s.commit(nil); err != nil {
			return true, nil // the round has failed, and this is taken back
		}
	}
	if err := s.room(int64(r.size()), false); err != nil {
		return true, errNoRoom
	}
	s.begin(int64(r.size()))
	c.at = s.wal.end()
	c.saved = s.save(r.slot)
	sl.at = c.at
	s.index.set(r.slot, &sl)
	if ks != nil {
		ks.at = c.at
	}
	s.account(c.at, int64(c.size))
	s.account(c.old, -int64(c.size))
	s.undo = append(s.undo, c)
	r.moved = true
	s.wal.buf = r.appendRecord(s.wal.buf, r.key, s.wal.mask(c.at))
	s.wal.buf = append(s.wal.buf, r.payload...)
	return true, nil
}

// packable says whether a chunk of the index is worth packing.
func (s *Store) packable() bool {
	for _, c := range s.index.chunks {
		if s.thin(c) {
			return true
		}
	}
	return false
}
