package store

import (
	"encoding/binary"
	"slices"
)

// Damage of the log whose record can't be told may have changed or deleted any entry that is older, or made one.
// Store.doubt is the number of the first slot that was used up after it: versions that
// are older, and absent keys, are answered ErrDamaged instead of what may be outdated.

// born is the number of the slot that a version used up: versions that came later have higher ones.
func (h *head) born(sequential bool) uint64 {
	if sequential && h.long {
		return h.other.slot
	}
	return h.slot
}

// doubtful says whether there may be a later version than the one of a slot, in the damaged part of the log.
func (s *Store) doubtful(number uint64, sl *slot) bool {
	if s.doubt == 0 {
		return false
	}
	if !s.cfg.Sequential {
		return number < s.doubt
	}
	v := s.versionOf(number, sl)
	return s.readVersion(&v, headLong+s.cfg.Layout.IDSize) != nil || v.head.born(true) < s.doubt
}

// mended undoes one flipped bit in a head and its key, if that is what is wrong with them: their checksum tells
// all damages of up to four bits from it.
func mended(damaged []byte, mask uint32) (head, []byte, bool) {
	b := slices.Clone(damaged[:min(len(damaged), headMost)])
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		h, key, needs, ok := parseHead(b, mask)
		if ok && i/8 < needs {
			return h, key, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return head{}, nil, false
}

// mendHeader undoes one flipped bit in the header of a segment.
func mendHeader(b []byte) (segmentHead, bool) {
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if h, ok := parseSegmentHeader(b); ok {
			return h, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return segmentHead{}, false
}

// damagedRecord reads a record whose head has one flipped bit. It must end where another begins, or be
// whole else.
func (o *opening) damagedRecord(scan *scanner, at int64) (r scanned, ok bool, err error) {
	r.at = placeOf(scan.number, uint32(at))
	b, err := scan.bytes(at, headMost)
	if err != nil {
		return r, false, err
	}
	if r.head, r.key, ok = mended(b, o.wal.mask(r.at)); !ok {
		return r, false, nil
	}
	end := at + int64(r.size())
	if end > scan.size {
		return r, false, nil
	}
	scan.off = end
	if end < scan.size {
		if _, follows, err := scan.next(false); err != nil || follows {
			scan.off = end
			return r, err == nil, err
		}
	}
	scan.off = end
	payload, err := scan.bytes(end-int64(r.length), int(r.length))
	return r, err == nil && payloadCRC(payload) == r.crc, err
}

// tornAt says whether what is left of a segment is the beginning of a record: a write that got no further.
func (o *opening) tornAt(scan *scanner, at int64) (bool, error) {
	b, err := scan.bytes(at, headMost)
	if err != nil || len(b) < 6 {
		return true, err
	}
	if binary.LittleEndian.Uint16(b[4:]) != recordMagic {
		return false, nil
	}
	if len(b) < headShort {
		return true, nil
	}
	h, _, needs, ok := parseHead(b, o.wal.mask(placeOf(scan.number, uint32(at))))
	if ok {
		return at+int64(h.size()) > scan.size, nil
	}
	return needs > len(b), nil
}

// sure says whether what was written at a place was there for sure, so that it is damage when it isn't: no power
// cut came after the segment was begun, or it was made last before.
func (o *opening) sure(seg *segment, off int64) bool {
	return seg.boot != 0 && seg.boot == o.boot || placeOf(seg.number, uint32(off)) < o.lasting
}

// learn finds out what the segments' headers say of all of them.
func (o *opening) learn() error {
	if o.image != nil {
		o.lasting, o.doubt = o.image.at, o.image.doubt
	}
	for _, seg := range o.wal.order {
		h, ok, err := o.headerOf(seg)
		if err != nil {
			return err
		}
		if ok && h.id == o.wal.id {
			seg.boot = h.boot
			o.lasting, o.doubt = max(o.lasting, h.synced), max(o.doubt, h.doubt)
		}
	}
	return nil
}

// unknown notes that nobody knows what a part of the log said.
func (o *opening) unknown(seg *segment, from, to int64) {
	o.skip(seg, from, to)
	if !o.sure(seg, from) {
		return // a power cut took it, which it may
	}
	o.unsettled += uint64(to-from)/headShort + 1
	o.cfg.Log.Error().Str("file", seg.path).Int64("offset", from).
		Msg("entries that are older than the damage may have been changed in it: they are answered as damaged until they are set again; copy what can be read, and empty the namespace")
}

// settle notes which entries are later than the last damage.
func (o *opening) settleDoubt(born uint64) {
	if o.unsettled > 0 {
		o.unsettled, o.doubt = 0, max(o.doubt, born)
	}
}

// endDoubt ends the looking for damage.
func (o *opening) endDoubt() {
	if o.unsettled > 0 {
		// So many numbers may have been given.
		o.jump(min(o.index.next+o.unsettled, slotsMost-1))
		o.settleDoubt(o.index.next)
		o.wanted, o.wal.ended = true, true
	}
	if o.killsBad && o.rebuild {
		o.doubt, o.wanted, o.wal.ended = o.index.next, true, true
	}
}
