package store

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// plan is one checkpoint: what is to be made last, in which order. Its run is
// on another goroutine and touches nothing of the store's but what is in it.
type plan struct {
	shape
	sync      func() error
	overlay   *overlay
	units     []unitWrite
	files     map[uint64]*chunkFile // those that are written to
	packs     []*packing
	kills     killWrite
	image     image
	bytes     int64 // of the image
	remove    []string
	victims   []*segment
	drops     []*chunk
	newChunks bool
	written   int64 // keeper.written when it was planned
	spare     bool  // there is a spare, see reserve.go
	spareUsed bool
}

// chunkFile is what a plan knows of a chunk.
type chunkFile struct {
	path   string
	packed bool
	count  int
}

// unitWrite is a unit of a chunk's bits.
type unitWrite struct {
	chunk *chunk
	unit  int
	bytes []byte
}

// checkpoint begins a checkpoint.
func (s *Store) checkpoint(now time.Time) error {
	if err := s.writeIndex(); err != nil {
		return err
	}
	p := s.plan(now)
	s.start(p.run, func(err error) { s.checkpointed(p, err) })
	return nil
}

// checkpointNow writes a checkpoint and waits for it.
func (s *Store) checkpointNow() error {
	s.await()
	if err := s.writeIndex(); err != nil {
		return err
	}
	for {
		p := s.plan(s.cfg.now())
		err := p.run()
		s.checkpointed(p, err)
		if !isFull(err) || s.pause != (time.Time{}) {
			return err
		}
	}
}

// writeIndex writes what of the index' slots isn't in its files.
func (s *Store) writeIndex() error {
	for {
		err := s.flushHeld()
		if err == nil {
			err = s.index.writeTail()
		}
		if !isFull(err) || !s.freeSpare() {
			return err
		}
	}
}

// flushHeld writes what the opening found no room for.
func (s *Store) flushHeld() error {
	if s.hold.empty() {
		return nil
	}
	if err := s.hold.flush(); err != nil {
		return err
	}
	for _, c := range s.index.chunks {
		s.shared.drop(&c.handle)
	}
	s.index.window.c, s.index.window.n = nil, 0
	return nil
}

// plan says what a checkpoint does; what changes from now on is for the next.
// Everything must have been written.
func (s *Store) plan(now time.Time) *plan {
	s.wanted, s.marked, s.synced, s.unsynced = false, now, now, false
	s.before = s.snap()
	x := s.index
	p := &plan{
		shape: x.shape, sync: s.syncing(), overlay: x.fresh, files: map[uint64]*chunkFile{},
		victims: slices.Clone(s.cleaner.done), image: s.imageNow(), written: s.written, spare: s.spare > 0,
	}
	x.frozen, x.fresh = x.fresh, x.spare
	for number := range p.overlay.at {
		p.file(x, number/x.per)
	}
	p.planUnits(x)
	s.planPacks(p)
	p.kills = s.planKills(p.victims)
	for _, v := range p.victims {
		p.remove = append(p.remove, v.path)
	}
	for _, c := range x.chunks {
		if c.dirty {
			p.file(x, c.number)
			c.dirty = false
		}
	}
	p.newChunks = x.created
	x.created = false
	return p
}

// file answers what the plan knows of a chunk, nil if there is no such chunk any more.
func (p *plan) file(x *index, number uint64) *chunkFile {
	if f := p.files[number]; f != nil {
		return f
	}
	c := x.chunk(number)
	if c == nil {
		return nil
	}
	f := &chunkFile{path: c.path, packed: c.packed, count: int(c.count)}
	p.files[number] = f
	return f
}

func (p *plan) planUnits(x *index) {
	for _, c := range x.chunks {
		for unit := 0; c.stale != 0; unit++ {
			if c.stale>>unit&1 == 1 {
				c.stale &^= 1 << unit
				if x.sequential {
					continue
				}
				p.units = append(p.units, unitWrite{c, unit, p.appendUnit(nil, c, unit)})
				p.file(x, c.number)
			}
		}
	}
}

// imageNow is the checkpoint of what is so now.
func (s *Store) imageNow() image {
	m := image{
		id: s.wal.id, kind: s.wal.kind, per: s.index.per, at: s.wal.end(),
		state: s.state, next: s.index.next, counters: s.counters, doubt: s.doubt,
	}
	for _, seg := range s.wal.order {
		if seg.size > 0 && !slices.Contains(s.cleaner.done, seg) {
			m.segments = append(m.segments, segmentImage{seg.number, seg.live})
		}
	}
	return m
}

func (p *plan) run() error {
	if err := p.sync(); err != nil {
		return lostWrites{err}
	}
	steps := []func() error{p.runKills, p.writeUnits, p.writeOverlay, p.syncFiles, p.runPacks, p.writeImage}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// lostWrites is a sync of the log that failed.
type lostWrites struct{ error }

func (p *plan) writeUnits() error {
	for _, u := range p.units {
		f, err := p.disk.Open(u.chunk.path, false)
		if err != nil {
			return err
		}
		err = f.WriteAt(u.bytes, nil, chunkHeader+int64(u.unit)*unitSize)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeOverlay writes the changed slots to where they belong.
func (p *plan) writeOverlay() error {
	numbers := make([]uint64, 0, len(p.overlay.at))
	for n := range p.overlay.at {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for len(numbers) > 0 {
		c := numbers[0] / p.per
		n := 1
		for n < len(numbers) && numbers[n]/p.per == c {
			n++
		}
		if f := p.files[c]; f != nil {
			if err := p.writeSlots(f, c, numbers[:n]); err != nil {
				return err
			}
		}
		numbers = numbers[n:]
	}
	return nil
}

func (p *plan) writeSlots(c *chunkFile, chunk uint64, numbers []uint64) error {
	f, err := p.disk.Open(c.path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	var places map[uint16]int
	if c.packed {
		if places, err = p.placesOf(f, c); err != nil {
			return err
		}
	}
	run, from := []byte(nil), -1
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		err := f.WriteAt(run, nil, p.slotsFrom()+int64(from)*slotSize)
		run = run[:0]
		return err
	}
	for _, n := range numbers {
		at := int(n - chunk*p.per)
		if c.packed {
			var there bool
			if at, there = places[uint16(n)]; !there {
				continue
			}
		}
		if at != from+len(run)/slotSize {
			if err := flush(); err != nil {
				return err
			}
			from = at
		}
		run = append(run, p.overlay.get(n)...)
	}
	return flush()
}

// placesOf reads where the slots of a packed chunk are.
func (p *plan) placesOf(f file, c *chunkFile) (map[uint16]int, error) {
	b := make([]byte, c.count*slotSize)
	if _, err := f.ReadAt(b, p.slotsFrom()); err != nil {
		return nil, err
	}
	out := make(map[uint16]int, c.count)
	for i := range c.count {
		out[slotNumber(b[i*slotSize:])] = i
	}
	return out, nil
}

func (p *plan) syncFiles() error {
	for _, c := range p.files {
		if err := syncFile(p.disk, c.path); err != nil {
			return err
		}
	}
	if p.newChunks {
		return p.disk.SyncDir(p.dir)
	}
	return nil
}

// writeImage makes the checkpoint the one that counts.
func (p *plan) writeImage() error {
	b := p.image.bytes()
	p.bytes = int64(len(b))
	path := filepath.Join(p.dir, checkpointFile)
	err := writeWhole(p.disk, path, b)
	if isFull(err) && p.spare {
		err = p.useSpare(path, b)
	}
	if err != nil {
		return err
	}
	return p.disk.SyncDir(p.dir)
}

// useSpare writes a file into the room that was set aside for it.
func (p *plan) useSpare(path string, b []byte) error {
	p.spareUsed = true
	if err := p.disk.Rename(filepath.Join(p.dir, spareFile), path+newSuffix); err != nil {
		return err
	}
	f, err := p.disk.Open(path+newSuffix, false)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.WriteAt(b, nil, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return p.disk.Rename(path+newSuffix, path)
}

// newSuffix ends the names of files that aren't whole yet.
const newSuffix = ".new"

func writeWhole(d disk, path string, b []byte) error {
	if err := writeNew(d, path, b); err != nil {
		return err
	}
	return d.Rename(path+newSuffix, path)
}

// writeNew writes what will be path when it is renamed.
func writeNew(d disk, path string, b []byte) error {
	f, err := d.Open(path+newSuffix, true)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		err = f.WriteAt(b, nil, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	return errors.Wrapf(err, "cannot write %s", path)
}

// checkpointed notes how a checkpoint went. Everything must have been written.
func (s *Store) checkpointed(p *plan, err error) {
	defer func() { s.before = s.snap() }()
	s.packed(p)
	if p.spareUsed {
		s.spare = 0
	}
	if p.kills.done {
		s.killed(&p.kills)
	}
	if err != nil {
		s.unfreeze(p)
		var lost lostWrites
		if errors.As(err, &lost) {
			s.unsure(lost.error)
			return
		}
		s.cfg.Log.Error().Err(err).Str("dir", s.cfg.IndexDir).Msg("cannot write a checkpoint, trying again")
		s.pause, s.wanted = s.cfg.now().Add(pauseAfterError), true
		if isFull(err) && s.freeSpare() {
			s.pause = time.Time{}
		}
		return
	}
	s.thaw(p)
	s.lasting = max(s.lasting, p.image.at)
	s.at, s.atNext, s.since, s.checkpointBytes = p.image.at, p.image.next, p.written, p.bytes
	for _, v := range p.victims {
		s.live -= v.live
		s.leaving += v.size
		s.wal.remove(v)
	}
	s.cleaner.done = slices.DeleteFunc(s.cleaner.done, func(v *segment) bool { return slices.Contains(p.victims, v) })
	for _, c := range p.drops {
		s.leaving += c.bytes
		s.index.drop(c)
	}
	s.removing(p.remove)
}

// removing removes files that are no longer needed.
func (s *Store) removing(paths []string) {
	if len(paths) == 0 {
		return
	}
	disk := s.disk
	s.start(func() error {
		for _, path := range paths {
			if err := disk.Remove(path); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		s.leaving = 0
		if err != nil {
			s.cfg.Log.Error().Err(err).Msg("cannot remove a file that is no longer needed, it goes at the next start")
		}
	})
}

// thaw forgets the changes of a checkpoint, which are in their files or in the next one's.
func (s *Store) thaw(p *plan) {
	x := s.index
	p.overlay.clear()
	x.frozen, x.spare = nil, p.overlay
	x.window.c, x.window.n = nil, 0
}

// unfreeze takes the changes back that couldn't be written.
func (s *Store) unfreeze(p *plan) {
	x := s.index
	for n := range p.overlay.at {
		if x.fresh.get(n) == nil {
			copy(x.fresh.set(n), p.overlay.get(n))
		}
	}
	s.thaw(p)
	for _, u := range p.units {
		u.chunk.stale |= 1 << u.unit
	}
	for number := range p.files {
		if c := x.chunk(number); c != nil {
			c.dirty = true
		}
	}
	x.created = x.created || p.newChunks
}
