package keytable

import (
	"github.com/croft-edge/croft/zdb/store/format"
)

// Table maps hashes of live keys to the places of their records. It has 32 bits of a
// hash, not the key: the caller reads the record and compares. Its 256 shards grow
// one by one, so that no single Set waits for long.
type Table struct {
	shards [256]shard
	Count  uint64              // of keys
	Bytes  int                 // of memory
	Ask    func(more int) bool // asked before Bytes grows, and told when it shrinks; nil: no limit
}

// shard is a hash table with open addressing and linear probing.
type shard struct {
	slots  []Entry
	n      int
	mapped bool // slots are to be given back with freeTable
}

// Entry is one key; At is zero when the entry is free.
type Entry struct {
	Tag  uint32 // of the hash; its place in the shard follows from it
	Size uint32 // of the whole record
	At   format.Place
}

const (
	entrySize  = 16
	firstShard = 8
)

func (k *Table) shard(hash uint64) *shard { return &k.shards[byte(hash)] }

// Tag is the part of a hash that an entry has.
func Tag(hash uint64) uint32 { return uint32(hash >> 32) }

// home is the preferred entry of a tag in a shard of n entries. It is proportional to the
// tag, so that a growing shard needs no other bits of the hash.
func home(tag uint32, n int) int { return int(uint64(tag) * uint64(n) >> 32) }

// First is the index of the first entry that may have the hash, -1 if there is none.
func (k *Table) First(hash uint64) int {
	s := k.shard(hash)
	if len(s.slots) == 0 {
		return -1
	}
	return s.find(Tag(hash), home(Tag(hash), len(s.slots)))
}

// Next is the index of the next entry after i that may have the hash, -1 if there is none.
func (k *Table) Next(hash uint64, i int) int {
	s := k.shard(hash)
	if i++; i == len(s.slots) {
		i = 0
	}
	return s.find(Tag(hash), i)
}

func (s *shard) find(tag uint32, i int) int {
	for s.slots[i].At != 0 {
		if s.slots[i].Tag == tag {
			return i
		}
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	return -1
}

// At answers an entry by its index.
func (k *Table) At(hash uint64, i int) *Entry { return &k.shard(hash).slots[i] }

// Locate answers the key with the hash whose record is at a place.
func (k *Table) Locate(hash uint64, at format.Place) *Entry {
	for i := k.First(hash); i >= 0; i = k.Next(hash, i) {
		if s := k.At(hash, i); s.At == at {
			return s
		}
	}
	return nil
}

// MakeRoom makes room for one more key with the hash; false if Ask refuses the memory.
func (k *Table) MakeRoom(hash uint64) bool {
	s := k.shard(hash)
	if 5*(s.n+1) <= 4*len(s.slots) {
		return true
	}
	return k.resize(s, max(firstShard, len(s.slots)*7/5))
}

// Add adds a key; there must be room.
func (k *Table) Add(hash uint64, at format.Place, size uint32) {
	s := k.shard(hash)
	s.add(Entry{Tag: Tag(hash), Size: size, At: at})
	s.n++
	k.Count++
}

func (s *shard) add(e Entry) {
	i := home(e.Tag, len(s.slots))
	for s.slots[i].At != 0 {
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	s.slots[i] = e
}

// Reserve makes room for so many keys at once; false if Ask refuses the memory.
func (k *Table) Reserve(count uint64) bool {
	each := int(count/256) + 1
	for i := range k.shards {
		// A shard with more than its share grows as any does.
		if !k.resize(&k.shards[i], each*10/7) {
			return false
		}
	}
	return true
}

func (k *Table) resize(s *shard, n int) bool {
	more := (n - len(s.slots)) * entrySize
	if more <= 0 {
		return true
	}
	if k.Ask != nil && !k.Ask(more) {
		return false
	}
	old, mapped := s.slots, s.mapped
	s.slots, s.mapped = newTable(n)
	for _, e := range old {
		if e.At != 0 {
			s.add(e)
		}
	}
	if mapped {
		freeTable(old)
	}
	k.Bytes += more
	return true
}

// Remove removes the key with the hash whose record is at a place.
func (k *Table) Remove(hash uint64, at format.Place) {
	for i := k.First(hash); i >= 0; i = k.Next(hash, i) {
		if k.At(hash, i).At == at {
			k.shard(hash).remove(i)
			k.Count--
			return
		}
	}
}

// remove frees an entry and moves up those that were displaced past it.
func (s *shard) remove(free int) {
	n := len(s.slots)
	for i := free; ; {
		if i++; i == n {
			i = 0
		}
		if s.slots[i].At == 0 {
			break
		}
		// It may move when its home isn't between the free slot and itself.
		h := home(s.slots[i].Tag, n)
		if (i-h+n)%n >= (i-free+n)%n {
			s.slots[free] = s.slots[i]
			free = i
		}
	}
	s.slots[free] = Entry{}
	s.n--
}

// Close gives the table's memory back.
func (k *Table) Close() {
	for i := range k.shards {
		if k.shards[i].mapped {
			freeTable(k.shards[i].slots)
		}
	}
	if k.Ask != nil {
		k.Ask(-k.Bytes)
	}
	*k = Table{}
}
