package store

import (
	"encoding/binary"
	"path/filepath"

	"github.com/pkg/errors"
)

// When a segment is cleaned, its records that say "the entry there is dead" go, but
// the dead entry may still lie in another segment. Who makes the
// index from the log again would take it for alive. So the places are
// kept in a file: blocks of a magic, a count, a checksum and places.
const (
	killsFile   = "kills"
	killsHeader = 16
	killsMagic  = 0x6b696c6c
	killsSmall  = 1 << 20 // bytes up to which the file isn't looked through
	killsBlock  = 1 << 16 // places of a block
)

// killWrite is what a checkpoint does with the file of kills.
type killWrite struct {
	path, dir string
	add       []place
	at        int64 // where the file's good part ends
	after     int64 // where it will end
	keep      map[uint32]bool
	whole     bool // write it anew, with the places in segments that keep has
	taken     int  // of Store.cleaner.kills
	done      bool
}

func (s *Store) planKills(victims []*segment) killWrite {
	k := killWrite{path: filepath.Join(s.cfg.Dir, killsFile), dir: s.cfg.Dir, at: s.kills, taken: len(s.cleaner.kills)}
	gone := map[uint32]bool{}
	for _, v := range victims {
		gone[v.number] = true
	}
	for _, at := range s.cleaner.kills {
		if !gone[at.segment()] && s.wal.segments[at.segment()] != nil {
			k.add = append(k.add, at)
		}
	}
	k.after = k.at + blocksLen(len(k.add))
	if k.whole = k.after > killsSmall && k.after > 2*s.killsMin; k.whole {
		k.keep = map[uint32]bool{}
		for n := range s.wal.segments {
			k.keep[n] = !gone[n]
		}
	}
	return k
}

func blocksLen(places int) int64 {
	blocks := (places + killsBlock - 1) / killsBlock
	return int64(blocks)*killsHeader + 8*int64(places)
}

// runKills makes the places of killed entries last, before the segments that said so go.
func (p *plan) runKills() error {
	k := &p.kills
	if k.whole {
		return p.rewriteKills()
	}
	if len(k.add) == 0 {
		return nil
	}
	f, err := p.disk.Open(k.path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.WriteAt(appendKills(nil, k.add), nil, k.at); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	k.done = true
	if k.at == 0 {
		return p.disk.SyncDir(k.dir)
	}
	return nil
}

func (p *plan) rewriteKills() error {
	k := &p.kills
	f, err := p.disk.Open(k.path, true)
	if err != nil {
		return err
	}
	kept := k.add
	_, _, err = readKills(f, k.at, func(old []place) {
		for _, at := range old {
			if k.keep[at.segment()] {
				kept = append(kept, at)
			}
		}
	})
	f.Close()
	if err != nil {
		return err
	}
	b := appendKills(nil, kept)
	k.after = int64(len(b))
	if err := writeWhole(p.disk, k.path, b); err != nil {
		return err
	}
	k.done = true
	return p.disk.SyncDir(k.dir)
}

// killed notes that a checkpoint's kills are in the file.
func (s *Store) killed(k *killWrite) {
	s.cleaner.kills = append(s.cleaner.kills[:0], s.cleaner.kills[k.taken:]...)
	s.kills = k.after
	if k.whole {
		s.killsMin = k.after
	}
}

func appendKills(b []byte, places []place) []byte {
	le := binary.LittleEndian
	for len(places) > 0 {
		n := min(len(places), killsBlock)
		from := len(b)
		b = le.AppendUint32(b, killsMagic)
		b = le.AppendUint32(b, uint32(n))
		b = le.AppendUint64(b, 0)
		for _, at := range places[:n] {
			b = le.AppendUint64(b, uint64(at))
		}
		le.PutUint32(b[from+8:], crcOf(b[from+killsHeader:]))
		places = places[n:]
	}
	return b
}

// readKills reads the blocks of a file up to size, and answers where the last good one ends, and whether one is damaged.
func readKills(f file, size int64, seen func([]place)) (end int64, bad bool, err error) {
	le := binary.LittleEndian
	b := make([]byte, 8*killsBlock)
	places := make([]place, 0, killsBlock)
	for off := int64(0); off+killsHeader <= size; {
		var head [killsHeader]byte
		if _, err := f.ReadAt(head[:], off); err != nil {
			return 0, false, errors.Wrap(err, "cannot read the kills")
		}
		n := int64(le.Uint32(head[4:]))
		if le.Uint32(head[:]) != killsMagic || n > killsBlock {
			return end, head != [killsHeader]byte{}, nil
		}
		if off+killsHeader+8*n > size {
			break // the last one, torn
		}
		if _, err := f.ReadAt(b[:8*n], off+killsHeader); err != nil {
			return 0, false, errors.Wrap(err, "cannot read the kills")
		}
		off += killsHeader + 8*n
		if crcOf(b[:8*n]) != le.Uint32(head[8:]) {
			bad = true // damaged; or the last one, torn
			continue
		}
		end, places = off, places[:0]
		for i := range n {
			places = append(places, place(le.Uint64(b[8*i:])))
		}
		seen(places)
	}
	return end, bad, nil
}
