package store

import (
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// largeValue is the payload, in bytes, from which on a value is written at once, without being
// copied first.
const largeValue = 256 << 10

// batch is the operations since the last write to the log. They are in effect in memory; when
// they can't be written they are undone.
type batch struct {
	log        *wal.Log
	index      *index.Index
	files      *virtualFiles
	ledger     *ledger
	compaction *compaction

	changes []change
	saved   []byte // bytes of changed slots
	before  snapshot

	undo  func(*change)            // mode.undo
	write func(extra []byte) error // writes the batch, with extra behind it
}

// change is the effect of one operation in memory.
type change struct {
	kind    changeKind
	hash    uint64       // of the key, in user mode
	at      format.Place // of the new record
	size    uint32
	old     format.Place // of the record whose place it took; 0: there is none
	oldSize uint32
	slot    uint64 // that was changed
	saved   int    // where in batch.saved its bytes are; -1: it had none in memory
}

type changeKind uint8

const (
	changePut changeKind = iota
	changeDelete
	changeMove
)

// snapshot is the state when everything was written.
type snapshot struct {
	files      format.FileState
	next       uint64
	chunks     int
	counters   format.Counters
	inserts    uint64
	compaction compactionMark
}

// sync notes that everything is written: rollback undoes changes from now on.
func (b *batch) sync() {
	b.before = snapshot{
		files: b.files.FileState, next: b.index.Next, chunks: len(b.index.List), counters: b.ledger.Counters,
		inserts: b.ledger.inserts, compaction: b.compaction.mark(),
	}
}

// committed drops the undo records of changes that are now written.
func (b *batch) committed() {
	b.changes, b.saved = b.changes[:0], b.saved[:0]
	b.sync()
}

// rollback undoes the changes since the last sync or committed.
func (b *batch) rollback() {
	for i := len(b.changes) - 1; i >= 0; i-- {
		c := &b.changes[i]
		b.ledger.account(c.at, -int64(c.size))
		b.ledger.account(c.old, int64(c.oldSize))
		b.undo(c)
	}
	b.log.DropBuffer()
	was := &b.before
	b.index.Cut(was.next, was.chunks)
	b.files.FileState, b.ledger.Counters, b.ledger.inserts = was.files, was.counters, was.inserts
	b.compaction.back(was.compaction)
	b.changes, b.saved = b.changes[:0], b.saved[:0]
}

// save keeps a slot's bytes for a change that will be noted.
func (b *batch) save(number uint64) int {
	was := b.index.Saved(number)
	if was == nil {
		return -1
	}
	b.saved = append(b.saved, was...)
	return len(b.saved) - format.SlotSize
}

// restore takes the change of a slot back.
func (b *batch) restore(c *change) {
	if c.saved < 0 {
		b.index.Restore(c.slot, nil)
		return
	}
	b.index.Restore(c.slot, b.saved[c.saved:][:format.SlotSize])
}

// newPut is the head of a new version, at the ends of the virtual files. They rotate before if
// 0-db's would.
func (b *batch) newPut(key int, value []byte, at uint32) format.Head {
	if b.files.full(key, len(value)) {
		b.rotate()
	}
	return format.Head{
		Kind: format.KindPut, KeyLen: uint8(key), Length: uint32(len(value)), CRC: format.PayloadCRC(value), Time: at,
		Data: b.files.dataEnd(), Prev: b.files.Prev, Slot: b.index.Next, Index: b.files.indexEnd(),
	}
}

// put notes a new version that took old's place, if that was found, and appends its record.
func (b *batch) put(c *change, h *format.Head, old *version, key, value []byte) error {
	b.ledger.put(c, old, len(key), len(value))
	b.files.put(len(key), len(value))
	b.changes = append(b.changes, *c)
	return b.append(h, key, value)
}

// newDelete is the head of a deletion of old.
func (b *batch) newDelete(key int, old *version, at uint32) format.Head {
	return format.Head{
		Kind: format.KindDelete, KeyLen: uint8(key), Time: at, Data: b.files.dataEnd(), Prev: b.files.Prev,
		Slot: old.slot, Index: old.index, Replaces: true,
		Old: format.OldVersion{Slot: old.slot, Index: old.index, At: old.at},
	}
}

// remove notes the deletion of old and appends its record.
func (b *batch) remove(c *change, h *format.Head, old *version, key []byte) error {
	b.ledger.remove(c, old, len(key))
	b.files.touch(old.index.File)
	b.files.remove(len(key))
	b.changes = append(b.changes, *c)
	return b.append(h, key, nil)
}

// move notes that a record was copied and appends the copy.
func (b *batch) move(c *change, r *wal.Record) {
	b.ledger.account(c.at, int64(c.size))
	b.ledger.account(c.old, -int64(c.size))
	b.changes = append(b.changes, *c)
	r.Moved = true
	b.log.Buf = r.Append(b.log.Buf, r.Key, b.log.Mask(c.at))
	b.log.Buf = append(b.log.Buf, r.Payload...)
}

// append puts a record into the log's buffer; a large one is written.
func (b *batch) append(h *format.Head, key, value []byte) error {
	b.log.Buf = h.Append(b.log.Buf, key, b.log.Mask(b.log.End()))
	if len(value) >= largeValue {
		return b.write(value)
	}
	b.log.Buf = append(b.log.Buf, value...)
	return nil
}

// rotate begins the next virtual file.
func (b *batch) rotate() {
	b.files.rotate()
	h := format.Head{Kind: format.KindRotate, Data: b.files.dataEnd(), Prev: b.files.Prev, Slot: b.index.Next}
	b.log.Buf = h.Append(b.log.Buf, nil, b.log.Mask(b.log.End()))
}
