package store

// keys is the table of the live keys in user mode: not the keys themselves,
// but 32 bits of their hash and where their record is. Who finds something
// reads the record and compares. It has 256 parts that grow by themselves, so
// that no single Set waits for long.
type keys struct {
	shards [256]shard
	count  uint64
	bytes  int
	ask    func(more int) bool
}

// shard is a table with open addressing: what doesn't find its place free goes to the next.
type shard struct {
	slots  []keySlot
	n      int
	mapped bool // slots are to be given back with freeTable
}

// keySlot is one key; at is zero when it is free.
type keySlot struct {
	tag  uint32 // of the hash; its place in the shard follows from it
	size uint32 // of the whole record
	at   place
}

const (
	keySlotSize = 16
	firstShard  = 8
)

func (k *keys) shard(hash uint64) *shard { return &k.shards[byte(hash)] }

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home is where a tag would be in a shard of n slots. It grows with the tag, so
// that no bits but the tag's are needed when the shard grows.
func home(tag uint32, n int) int { return int(uint64(tag) * uint64(n) >> 32) }

// first answers a key that may have the hash; next the one after it. Both
// answer -1 when there are no more.
func (k *keys) first(hash uint64) int {
	s := k.shard(hash)
	if len(s.slots) == 0 {
		return -1
	}
	return s.find(tagOf(hash), home(tagOf(hash), len(s.slots)))
}

func (k *keys) next(hash uint64, i int) int {
	s := k.shard(hash)
	if i++; i == len(s.slots) {
		i = 0
	}
	return s.find(tagOf(hash), i)
}

func (s *shard) find(tag uint32, i int) int {
	for s.slots[i].at != 0 {
		if s.slots[i].tag == tag {
			return i
		}
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	return -1
}

func (k *keys) at(hash uint64, i int) *keySlot { return &k.shard(hash).slots[i] }

// locate answers the key with the hash whose record is at a place.
func (k *keys) locate(hash uint64, at place) *keySlot {
	for i := k.first(hash); i >= 0; i = k.next(hash, i) {
		if s := k.at(hash, i); s.at == at {
			return s
		}
	}
	return nil
}

// room makes room for one more key with the hash; false if there may be no more.
func (k *keys) room(hash uint64) bool {
	s := k.shard(hash)
	if 5*(s.n+1) <= 4*len(s.slots) {
		return true
	}
	return k.resize(s, max(firstShard, len(s.slots)*7/5))
}

// add adds a key; there must be room.
func (k *keys) add(hash uint64, at place, size uint32) {
	s := k.shard(hash)
	s.add(keySlot{tag: tagOf(hash), size: size, at: at})
	s.n++
	k.count++
}

func (s *shard) add(e keySlot) {
	i := home(e.tag, len(s.slots))
	for s.slots[i].at != 0 {
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	s.slots[i] = e
}

// reserve makes room for so many keys, so that the table needn't grow step by step.
func (k *keys) reserve(count uint64) bool {
	each := int(count/256) + 1
	for i := range k.shards {
		// A shard with more than its share grows as any does.
		if !k.resize(&k.shards[i], each*10/7) {
			return false
		}
	}
	return true
}

func (k *keys) resize(s *shard, n int) bool {
	more := (n - len(s.slots)) * keySlotSize
	if more <= 0 {
		return true
	}
	if k.ask != nil && !k.ask(more) {
		return false
	}
	old, mapped := s.slots, s.mapped
	s.slots, s.mapped = newTable(n)
	for _, e := range old {
		if e.at != 0 {
			s.add(e)
		}
	}
	if mapped {
		freeTable(old)
	}
	k.bytes += more
	return true
}

// remove removes the key with the hash whose record is at a place.
func (k *keys) remove(hash uint64, at place) {
	for i := k.first(hash); i >= 0; i = k.next(hash, i) {
		if k.at(hash, i).at == at {
			k.shard(hash).remove(i)
			k.count--
			return
		}
	}
}

// remove frees a slot and moves those up that went past it.
func (s *shard) remove(free int) {
	n := len(s.slots)
	for i := free; ; {
		if i++; i == n {
			i = 0
		}
		if s.slots[i].at == 0 {
			break
		}
		// It may move when its home isn't between the free slot and itself.
		h := home(s.slots[i].tag, n)
		if (i-h+n)%n >= (i-free+n)%n {
			s.slots[free] = s.slots[i]
			free = i
		}
	}
	s.slots[free] = keySlot{}
	s.n--
}

// close gives the table's memory back.
func (k *keys) close() {
	for i := range k.shards {
		if k.shards[i].mapped {
			freeTable(k.shards[i].slots)
		}
	}
	if k.ask != nil {
		k.ask(-k.bytes)
	}
	*k = keys{}
}

// loading collects keys that are added when the store is opened. The memory where each will be is
// asked for before the first is put there, so that they wait for it together.
type loading struct {
	keys  *keys
	batch [64]loadedKey
	n     int
	sum   uint32
}

type loadedKey struct {
	hash uint64
	at   place
	size uint32
}

// add adds a key; false if there may be no more.
func (l *loading) add(k loadedKey) bool {
	l.batch[l.n] = k
	l.n++
	return l.n < len(l.batch) || l.flush()
}

func (l *loading) flush() bool {
	for _, k := range l.batch[:l.n] {
		if s := l.keys.shard(k.hash); len(s.slots) > 0 {
			l.sum += s.slots[home(tagOf(k.hash), len(s.slots))].tag
		}
	}
	for _, k := range l.batch[:l.n] {
		if !l.keys.room(k.hash) {
			return false
		}
		l.keys.add(k.hash, k.at, k.size)
	}
	l.n = 0
	return true
}
