package store

import (
	"cmp"
	"os"
	"slices"

	"github.com/pkg/errors"
)

// packing is writing a chunk anew without its dead slots.
type packing struct {
	chunk *chunk
	file  chunkFile
	head  chunk    // what the new header says
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

// planPacks chooses the chunks to be packed or dropped when space is needed,
// and fills in the image's chunks.
func (s *Store) planPacks(p *plan) {
	x := s.index
	var thin []*chunk
	pressed := s.crowded()
	for i, c := range x.chunks {
		last := i == len(x.chunks)-1
		switch {
		case pressed && c.live == 0 && !last:
			p.drops = append(p.drops, c)
			p.remove = append(p.remove, c.path)
			continue
		case pressed && s.thin(c):
			thin = append(thin, c)
		}
		p.image.chunks = append(p.image.chunks, chunkImage{c.number, c.live})
	}
	slices.SortFunc(thin, func(a, b *chunk) int { return cmp.Compare(a.live, b.live) })
	var bytes uint64
	for _, c := range thin {
		// The old file and the new one are there together for a while.
		if bytes += uint64(c.live) * slotSize; len(p.packs) > 0 && (len(p.packs) >= packsAtOnce || bytes > s.fixed()/16) {
			break
		}
		pk := &packing{chunk: c, file: chunkFile{path: c.path, packed: c.packed, count: x.places(c)}}
		pk.head = chunk{number: c.number, packed: true}
		pk.dead = slices.Clone(c.dead)
		p.packs = append(p.packs, pk)
	}
	// More are waiting: the next checkpoint shall come soon.
	s.wanted = s.wanted || len(thin) > len(p.packs)
}

// thin says whether a chunk is worth packing, and may be: all its slots must be older than
// the last checkpoint, because those that aren't are put where they belong in a dense chunk
// if that checkpoint is the one that the next start finds.
func (s *Store) thin(c *chunk) bool {
	return (c.number+1)*s.index.per <= s.atNext && 100*int(c.live) < packBelow*s.index.places(c)
}

func (p *plan) runPacks() error {
	for _, pk := range p.packs {
		if err := p.pack(pk); err != nil {
			return errors.Wrapf(err, "cannot pack %s", pk.file.path)
		}
		pk.done = true
	}
	return nil
}

// packed puts the packed chunks in the place of the old ones. This isn't for the other goroutine to do:
// who reads must know which of both is there.
func (s *Store) packed(p *plan) {
	for _, pk := range p.packs {
		if !pk.done {
			continue
		}
		if err := s.disk.Rename(pk.file.path+newSuffix, pk.file.path); err != nil {
			s.cfg.Log.Error().Err(err).Msg("cannot pack a file of the index")
			continue
		}
		pk.chunk.packed, pk.chunk.count = true, pk.count
		s.index.replaced(pk.chunk, pk.bytes)
		s.index.created = true
	}
}

func (p *plan) pack(pk *packing) error {
	f, err := p.disk.Open(pk.file.path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	old := make([]byte, pk.file.count*slotSize)
	if err := readZeros(f, old, p.slotsFrom()); err != nil {
		return err
	}
	slots := make([]byte, 0, len(old)/2)
	pk.head.dead = make([]uint64, len(pk.dead))
	for i := range pk.head.dead {
		pk.head.dead[i] = ^uint64(0)
	}
	base := pk.head.number * p.per
	for at := range pk.file.count {
		b := old[at*slotSize:][:slotSize]
		i := uint64(at)
		if pk.file.packed {
			i = uint64(slotNumber(b) - uint16(base))
		}
		sl, state := parseSlot(b, p.id, base+i)
		if state == slotBad {
			return os.ErrInvalid
		}
		if state == slotAbsent || sl.dead() || !p.sequential && pk.dead[i/64]>>(i%64)&1 == 1 {
			continue
		}
		slots = append(slots, b...)
		pk.count++
		if !p.sequential {
			pk.head.dead[i/64] &^= 1 << (i % 64)
		}
	}
	pk.head.count = pk.count
	b := p.header(&pk.head)
	if !p.sequential {
		for unit := range p.shape.units() {
			b = p.appendUnit(b, &pk.head, unit)
		}
	}
	b = append(b, slots...)
	pk.bytes = int64(len(b))
	return writeNew(p.disk, pk.file.path, b)
}
