package store

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// compaction is how far the compactor is.
type compaction struct {
	victim *wal.Segment // nil: none is chosen
	scan   *wal.Scanner
	done   []*wal.Segment // waiting for a checkpoint
	dead   []format.Place // tombstones for the next checkpoint; see package tombstones
	below  uint32         // no younger segment may be chosen: it may hold copies of those in done
}

// compactionMark is where a compaction was.
type compactionMark struct {
	victim *wal.Segment
	off    int64
	done   int
	dead   int
}

func (c *compaction) mark() compactionMark {
	m := compactionMark{victim: c.victim, done: len(c.done), dead: len(c.dead)}
	if c.victim != nil {
		m.off = c.scan.Off
	}
	return m
}

func (c *compaction) back(m compactionMark) {
	if c.victim != m.victim && m.victim != nil {
		c.scan = &wal.Scanner{Number: m.victim.Number, Size: m.victim.Size, ID: c.scan.ID}
	}
	c.victim, c.done, c.dead = m.victim, c.done[:m.done], c.dead[:m.dead]
	if c.victim != nil {
		c.scan.Off = m.off
	}
}

const (
	// doneMost is how many segments may wait for a checkpoint.
	doneMost = 4
	// moveMost is how much is compacted in one go while clients wait, in bytes.
	moveMost = 8 << 20
)

// compactor copies the live records of a segment to the end of the log, so that the segment can go. A
// segment goes when a checkpoint knows of the copies.
type compactor struct {
	*compaction
	log      *wal.Log
	mode     mode
	writer   *writer
	reserve  *reserve
	space    *space
	schedule *schedule
}

// budget is how much of the victim to compact after so many bytes were written.
func (c *compactor) budget(written int) int {
	n := int64(64 << 10)
	if v := c.victim; v != nil {
		// So much must be looked at for each byte that is won, and half of it more.
		n += int64(written) * 3 / 2 * v.Size / max(v.Size-v.Live, v.Size/32, 1)
	}
	return int(min(n, moveMost))
}

// run looks at about budget bytes of the victim; false if there is nothing to do.
func (c *compactor) run(budget int) bool {
	if c.writer.broken != nil || c.writer.failed != nil || !c.space.pressed() {
		return false
	}
	if len(c.done) >= doneMost {
		c.schedule.wanted = true
		return false
	}
	if c.victim == nil && !c.choose() {
		c.schedule.wanted = c.schedule.wanted || len(c.done) > 0 || c.space.index.Packable(c.schedule.next)
		return false
	}
	f, err := c.log.File(c.victim, false)
	if err != nil {
		return c.giveUp(err)
	}
	c.scan.F = f
	for end := c.scan.Off + int64(budget); c.scan.Off < end; {
		r, ok, err := c.scan.Next(true)
		switch {
		case err != nil:
			return c.giveUp(err)
		case !ok && c.scan.Off < c.victim.Size:
			return c.giveUp(c.writer.damage.record(r.At, "its head"))
		case !ok:
			c.done = append(c.done, c.victim)
			c.victim = nil
			c.schedule.wanted = true
			return true
		}
		err = c.record(&r)
		if errors.Is(err, errNoRoom) {
			c.victim = nil
			return false
		}
		if err != nil {
			return c.giveUp(err)
		}
		if c.writer.failed != nil {
			return false
		}
	}
	return true
}

// giveUp leaves a segment as it is: the unreadable part of it may be needed.
func (c *compactor) giveUp(err error) bool {
	v := c.victim
	c.writer.cfg.Log.Error().Err(err).Str("file", v.Path).Msg("cannot compact a segment, it is kept")
	v.Damaged = true
	c.victim = nil
	return true
}

// choose picks the segment of which the least is needed.
func (c *compactor) choose() bool {
	full := c.reserve.gate.full != nil
	if len(c.done) == 0 {
		c.below = c.log.End().Segment()
	}
	best := c.thinnest()
	if best == nil && full && c.retire() {
		best = c.thinnest()
	}
	if best == nil || full && !c.reserve.canMove(best.Live) {
		return false
	}
	if limits := c.space.limits; len(c.done) > 0 && limits.size > 0 && c.space.used()+best.Live > limits.hard() {
		return false // those that are done must go first
	}
	c.victim = best
	c.scan = &wal.Scanner{Number: best.Number, ID: c.log.ID, Size: best.Size, Off: format.SegmentHeaderSize}
	return true
}

// retire goes on in the reserve, so that the active segment can be compacted: the disk is full, and it may
// be all there is.
func (c *compactor) retire() bool {
	a := c.log.Active
	if a == nil || len(c.done) > 0 || a.Damaged || a.Size == 0 || 2*a.Live > a.Size {
		return false
	}
	need := a.Live + format.SegmentHeaderSize
	if c.reserve.file.bytes < need || c.reserve.use(need) != nil {
		return false
	}
	c.below = c.log.End().Segment()
	return true
}

// thinnest answers the segment of which the least is needed, nil if none is worth it.
func (c *compactor) thinnest() *wal.Segment {
	worth := int64(15)
	if c.reserve.gate.full != nil {
		worth = 8 // the copies use up the reserve
	}
	var best *wal.Segment
	for _, seg := range c.log.Order {
		if seg.Number >= c.below || seg.Damaged || seg == c.log.Active || 16*seg.Live > worth*seg.Size || slices.Contains(c.done, seg) {
			continue
		}
		if best == nil || seg.Live*best.Size < best.Live*seg.Size {
			best = seg
		}
	}
	return best
}

// record copies a live record, and keeps the tombstone that a dead one is.
func (c *compactor) record(r *wal.Record) error {
	if r.Kind == format.KindPut {
		alive, err := c.move(r)
		if err != nil || alive {
			return err
		}
	}
	if r.Replaces && r.Old.At.Segment() != r.At.Segment() && c.log.At(r.Old.At) != nil {
		c.dead = append(c.dead, r.Old.At)
	}
	return nil
}

// move copies a record to the end of the log if it is a live entry's.
func (c *compactor) move(r *wal.Record) (alive bool, err error) {
	sl, hash, ok, err := c.mode.live(*r)
	if err != nil || !ok {
		return false, err
	}
	w, b := c.writer, c.writer.batch
	if format.PayloadCRC(r.Payload) != r.CRC {
		return true, w.damage.record(r.At, "its payload")
	}
	size := int64(r.Size())
	if !c.log.Fits(size) || len(c.log.Buf) > wal.MaxBuffer {
		if err := w.commit(nil); err != nil {
			return true, nil // the round has failed, and this is taken back
		}
	}
	if err := c.reserve.room(size, false); err != nil {
		return true, errNoRoom
	}
	w.begin(size)
	m := change{kind: changeMove, hash: hash, at: c.log.End(), size: r.Size(), old: r.At, oldSize: r.Size(), slot: r.Slot}
	m.saved = b.save(r.Slot)
	sl.At = m.at
	b.index.Set(r.Slot, &sl)
	c.mode.moved(hash, m.old, m.at)
	b.move(&m, r)
	return true, nil
}
