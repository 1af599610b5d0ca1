package index

import (
	"path/filepath"
	"slices"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Flush is the index' part of a checkpoint: writes of changed slots and dead bits, and
// chunks to be packed. Run is for another goroutine and touches only Flush's fields.
type Flush struct {
	Usage []format.ChunkUsage // the chunks there will be
	More  bool                // more chunks are worth packing: the next checkpoint should come soon

	shape   Shape
	overlay *overlay
	units   []unitWrite
	files   map[uint64]*chunkFile // those that are written to
	packs   []*packing
	drops   []*Chunk
	created bool // files were created: the folder must be synced
}

// chunkFile is a Flush's copy of a chunk's state.
type chunkFile struct {
	path   string
	packed bool
	count  int
}

// unitWrite is a unit of a chunk's dead bits.
type unitWrite struct {
	chunk *Chunk
	unit  int
	bytes []byte
}

// PlanFlush begins a Flush of the changes made until now. All slots must be in files. Every
// PlanFlush is followed by EndFlush.
func (x *Index) PlanFlush(p PackPolicy) *Flush {
	f := &Flush{shape: x.Shape, overlay: x.fresh, files: map[uint64]*chunkFile{}}
	x.frozen, x.fresh = x.fresh, x.spare
	for number := range f.overlay.at {
		f.file(x, number/x.ChunkSlots)
	}
	f.planUnits(x)
	f.planPacks(x, p)
	for _, c := range x.List {
		if c.Dirty {
			f.file(x, c.Number)
			c.Dirty = false
		}
	}
	f.created, x.created = x.created, false
	return f
}

// file answers the chunkFile of a chunk, nil if there is no such chunk any more.
func (f *Flush) file(x *Index, number uint64) *chunkFile {
	if c := f.files[number]; c != nil {
		return c
	}
	c := x.Chunk(number)
	if c == nil {
		return nil
	}
	out := &chunkFile{path: c.Path, packed: c.Packed, count: int(c.Count)}
	f.files[number] = out
	return out
}

func (f *Flush) planUnits(x *Index) {
	for _, c := range x.List {
		for unit := 0; c.Stale != 0; unit++ {
			if c.Stale>>unit&1 == 0 {
				continue
			}
			c.Stale &^= 1 << unit
			if x.DeadBits {
				f.units = append(f.units, unitWrite{c, unit, f.shape.appendUnit(nil, c, unit)})
				f.file(x, c.Number)
			}
		}
	}
}

// Run writes and syncs everything.
func (f *Flush) Run() error {
	for _, step := range []func() error{f.writeUnits, f.writeOverlay, f.syncFiles, f.runPacks} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Flush) writeUnits() error {
	for _, u := range f.units {
		file, err := f.shape.Disk.Open(u.chunk.Path, false)
		if err != nil {
			return err
		}
		err = file.WriteAt(u.bytes, nil, HeaderSize+int64(u.unit)*UnitSize)
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeOverlay writes the changed slots to where they belong.
func (f *Flush) writeOverlay() error {
	numbers := make([]uint64, 0, len(f.overlay.at))
	for n := range f.overlay.at {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for len(numbers) > 0 {
		chunk := numbers[0] / f.shape.ChunkSlots
		n := 1
		for n < len(numbers) && numbers[n]/f.shape.ChunkSlots == chunk {
			n++
		}
		if c := f.files[chunk]; c != nil {
			if err := f.writeSlots(c, chunk, numbers[:n]); err != nil {
				return err
			}
		}
		numbers = numbers[n:]
	}
	return nil
}

func (f *Flush) writeSlots(c *chunkFile, chunk uint64, numbers []uint64) error {
	file, err := f.shape.Disk.Open(c.path, false)
	if err != nil {
		return err
	}
	defer file.Close()
	var places map[uint16]int
	if c.packed {
		if places, err = f.placesOf(file, c); err != nil {
			return err
		}
	}
	run, from := []byte(nil), -1
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		err := file.WriteAt(run, nil, f.shape.SlotsFrom()+int64(from)*format.SlotSize)
		run = run[:0]
		return err
	}
	for _, n := range numbers {
		at := int(n - chunk*f.shape.ChunkSlots)
		if c.packed {
			var there bool
			if at, there = places[uint16(n)]; !there {
				continue
			}
		}
		if at != from+len(run)/format.SlotSize {
			if err := flush(); err != nil {
				return err
			}
			from = at
		}
		run = append(run, f.overlay.get(n)...)
	}
	return flush()
}

// placesOf reads where the slots of a packed chunk are.
func (f *Flush) placesOf(file disk.File, c *chunkFile) (map[uint16]int, error) {
	b := make([]byte, c.count*format.SlotSize)
	if _, err := file.ReadAt(b, f.shape.SlotsFrom()); err != nil {
		return nil, err
	}
	out := make(map[uint16]int, c.count)
	for i := range c.count {
		out[format.LowBits(b[i*format.SlotSize:])] = i
	}
	return out, nil
}

func (f *Flush) syncFiles() error {
	for _, c := range f.files {
		if err := disk.SyncFile(f.shape.Disk, c.path); err != nil {
			return err
		}
	}
	if f.created {
		return f.shape.Disk.SyncDir(f.shape.Dir)
	}
	return nil
}

// EndFlush ends a Flush whose Run has ended: after a failure its changes wait for the next.
// It answers an error if a packed chunk couldn't take the place of the old one, which stays.
func (x *Index) EndFlush(f *Flush, failed bool) error {
	err := f.installPacks(x)
	if failed {
		f.unfreeze(x)
	}
	f.overlay.clear()
	x.frozen, x.spare = nil, f.overlay
	x.window.c, x.window.n = nil, 0
	return err
}

// unfreeze takes the changes back that couldn't be written.
func (f *Flush) unfreeze(x *Index) {
	for n := range f.overlay.at {
		if x.fresh.get(n) == nil {
			copy(x.fresh.set(n), f.overlay.get(n))
		}
	}
	for _, u := range f.units {
		u.chunk.Stale |= 1 << u.unit
	}
	for number := range f.files {
		if c := x.Chunk(number); c != nil {
			c.Dirty = true
		}
	}
	x.created = x.created || f.created
}

// DropEmpty forgets the chunks without live slots that the Flush left out. It answers their
// files, which may be removed now, and the bytes of these.
func (x *Index) DropEmpty(f *Flush) (paths []string, bytes int64) {
	for _, c := range f.drops {
		bytes += c.Bytes
		paths = append(paths, filepath.Join(x.Dir, ChunkName(c.Number)))
		x.Drop(c)
	}
	return paths, bytes
}

// Reread drops cached data and open files, because the files were rewritten.
func (x *Files) Reread() {
	for _, c := range x.List {
		x.pool.Drop(&c.Handle)
	}
	x.window.c, x.window.n = nil, 0
}
