package store

// change is what one operation did to what is in memory, so that it can be
// taken back when it can't be written.
type change struct {
	kind    changeKind
	hash    uint64
	at      place // of the new record
	size    uint32
	old     place // of the one whose place it took; 0: there is none
	oldSize uint32
	slot    uint64 // that was changed
	saved   int    // where in Store.saved its bytes are; -1: it had none in memory
}

type changeKind uint8

const (
	userPut changeKind = iota
	userDelete
	userMove
	seqInsert
	seqUpdate
	seqDelete
	seqMove
)

// snapshot is what was so when everything was written.
type snapshot struct {
	state    state
	next     uint64
	chunks   int
	counters counters
	cleaner  cleanerMark
}

func (s *Store) snap() snapshot {
	return snapshot{
		state: s.state, next: s.index.next, chunks: len(s.index.chunks), counters: s.counters,
		cleaner: s.cleaner.mark(),
	}
}

// save keeps a slot's bytes for a change.
func (s *Store) save(number uint64) int {
	var b []byte
	if number >= s.index.tailFrom {
		b = s.index.bytesOf(number)
	} else {
		b = s.index.fresh.get(number)
	}
	if b == nil {
		return -1
	}
	s.saved = append(s.saved, b...)
	return len(s.saved) - slotSize
}

func (s *Store) restore(c *change) {
	switch {
	case c.saved < 0:
		s.index.fresh.forget(c.slot)
	case c.slot >= s.index.tailFrom:
		copy(s.index.bytesOf(c.slot), s.saved[c.saved:])
	default:
		copy(s.index.fresh.set(c.slot), s.saved[c.saved:][:slotSize])
	}
}

// committed forgets how to take back what is now written.
func (s *Store) committed() {
	s.undo, s.saved = s.undo[:0], s.saved[:0]
	s.before = s.snap()
}

// rollback takes back what was done since everything was written.
func (s *Store) rollback() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.takeBack(&s.undo[i])
	}
	s.wal.forget()
	b := &s.before
	s.index.cut(b.next, b.chunks)
	s.state, s.counters = b.state, b.counters
	s.cleaner.back(b.cleaner)
	s.undo, s.saved = s.undo[:0], s.saved[:0]
}

func (s *Store) takeBack(c *change) {
	s.account(c.at, -int64(c.size))
	s.account(c.old, int64(c.oldSize))
	switch c.kind {
	case userPut:
		s.index.chunk((s.index.next-1)/s.index.per).live--
		s.index.cut(s.index.next-1, len(s.index.chunks))
		if c.old == 0 {
			s.keys.remove(c.hash, c.at)
			return
		}
		*s.keys.locate(c.hash, c.at) = keySlot{tag: tagOf(c.hash), size: c.oldSize, at: c.old}
		s.index.setAlive(c.slot)
	case userDelete:
		s.keys.add(c.hash, c.old, c.oldSize)
		s.index.setAlive(c.slot)
	case userMove:
		s.keys.locate(c.hash, c.at).at = c.old
		s.restore(c)
	case seqInsert:
		s.index.chunk((s.index.next-1)/s.index.per).live--
		s.index.cut(s.index.next-1, len(s.index.chunks))
	case seqUpdate:
		s.index.cut(s.index.next-1, len(s.index.chunks))
		s.restore(c)
	case seqDelete:
		s.index.chunk(c.slot/s.index.per).live++
		s.restore(c)
	case seqMove:
		s.restore(c)
	}
}

// account adds to the needed bytes of a segment.
func (s *Store) account(at place, n int64) {
	if seg := s.wal.segments[at.segment()]; seg != nil {
		seg.live += n
		s.live += n
	}
}
