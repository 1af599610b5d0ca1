package index

import (
	"cmp"
	"os"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// PackPolicy is which chunks a Flush packs.
type PackPolicy struct {
	Pressed bool   // space is needed; else none
	Before  uint64 // only chunks whose slots are all below: the next slot's number at the last checkpoint
	Budget  uint64 // bytes of packed slots, at most, if there is more than one chunk
}

// packing is writing a chunk anew without its dead slots.
type packing struct {
	chunk *Chunk
	file  chunkFile
	head  Chunk    // the new header's content
	dead  []uint64 // the bits as they were when the checkpoint was planned
	done  bool
	count uint32
	bytes int64
}

const (
	// packsAtOnce is how many chunks a checkpoint packs.
	packsAtOnce = 16
	// packBelow is the share of live slots, in percent, below which a chunk is packed when space is needed.
	packBelow = 75
)

// planPacks chooses the chunks to be packed or dropped, and fills in Usage.
func (f *Flush) planPacks(x *Index, p PackPolicy) {
	var thin []*Chunk
	for i, c := range x.List {
		last := i == len(x.List)-1
		switch {
		case p.Pressed && c.Live == 0 && !last:
			f.drops = append(f.drops, c)
			continue
		case p.Pressed && x.thin(c, p.Before):
			thin = append(thin, c)
		}
		f.Usage = append(f.Usage, format.ChunkUsage{Number: c.Number, Live: c.Live})
	}
	slices.SortFunc(thin, func(a, b *Chunk) int { return cmp.Compare(a.Live, b.Live) })
	var bytes uint64
	for _, c := range thin {
		// The old file and the new one are there together for a while.
		if bytes += uint64(c.Live) * format.SlotSize; len(f.packs) > 0 && (len(f.packs) >= packsAtOnce || bytes > p.Budget) {
			break
		}
		pk := &packing{chunk: c, file: chunkFile{path: c.Path, packed: c.Packed, count: x.Places(c)}}
		pk.head = Chunk{Number: c.Number, Packed: true}
		pk.dead = slices.Clone(c.Dead)
		f.packs = append(f.packs, pk)
	}
	f.More = len(thin) > len(f.packs)
}

// thin says whether a chunk is worth packing, and may be: all its slots must be older than
// the last checkpoint. Recovery puts younger ones where they belong in a dense chunk, and this
// checkpoint may not be the one that it finds.
func (x *Index) thin(c *Chunk, before uint64) bool {
	return (c.Number+1)*x.ChunkSlots <= before && 100*int(c.Live) < packBelow*x.Places(c)
}

// Packable says whether there is a chunk to pack; before is PackPolicy.Before.
func (x *Index) Packable(before uint64) bool {
	return slices.ContainsFunc(x.List, func(c *Chunk) bool { return x.thin(c, before) })
}

func (f *Flush) runPacks() error {
	for _, pk := range f.packs {
		if err := f.pack(pk); err != nil {
			return errors.Wrapf(err, "cannot pack %s", pk.file.path)
		}
		pk.done = true
	}
	return nil
}

// installPacks puts the packed chunks in the place of the old ones. This isn't for the other goroutine to do:
// readers must know which of both is there.
func (f *Flush) installPacks(x *Index) (failed error) {
	for _, pk := range f.packs {
		if !pk.done {
			continue
		}
		if err := x.Disk.Rename(pk.file.path+disk.TempSuffix, pk.file.path); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		pk.chunk.Packed, pk.chunk.Count = true, pk.count
		x.replaced(pk.chunk, pk.bytes)
		x.created = true
	}
	return failed
}

func (f *Flush) pack(pk *packing) error {
	s := &f.shape
	file, err := s.Disk.Open(pk.file.path, false)
	if err != nil {
		return err
	}
	defer file.Close()
	old := make([]byte, pk.file.count*format.SlotSize)
	if err := disk.ReadZeros(file, old, s.SlotsFrom()); err != nil {
		return err
	}
	slots := make([]byte, 0, len(old)/2)
	pk.head.Dead = make([]uint64, len(pk.dead))
	for i := range pk.head.Dead {
		pk.head.Dead[i] = ^uint64(0)
	}
	base := pk.head.Number * s.ChunkSlots
	for at := range pk.file.count {
		b := old[at*format.SlotSize:][:format.SlotSize]
		i := uint64(at)
		if pk.file.packed {
			i = uint64(format.LowBits(b) - uint16(base))
		}
		sl, state := format.ParseSlot(b, s.ID, base+i)
		if state == format.SlotBad {
			return os.ErrInvalid
		}
		if state == format.SlotAbsent || sl.Dead() || s.DeadBits && pk.dead[i/64]>>(i%64)&1 == 1 {
			continue
		}
		slots = append(slots, b...)
		pk.count++
		if s.DeadBits {
			pk.head.Dead[i/64] &^= 1 << (i % 64)
		}
	}
	pk.head.Count = pk.count
	b := s.header(&pk.head)
	if s.DeadBits {
		for unit := range s.Units() {
			b = s.appendUnit(b, &pk.head, unit)
		}
	}
	b = append(b, slots...)
	pk.bytes = int64(len(b))
	return disk.WriteTemp(s.Disk, pk.file.path, b)
}
