package store

import (
	"maps"
	"slices"

	"github.com/croft-edge/croft/zdb/store/format"
)

// virtualFiles are the data and index files that 0-db itself would have: clients' positions
// count in them. They exist as numbers only.
type virtualFiles struct {
	format.FileState
	layout Layout
	size   uint64 // of a data file, in bytes

	dirty   map[uint32]struct{} // index files in which entries were changed
	touched uint32              // the last one that was added to dirty
}

func newVirtualFiles(l Layout, size uint64) *virtualFiles {
	f := &virtualFiles{layout: l, size: size, dirty: map[uint32]struct{}{}}
	f.reset()
	return f
}

// reset goes back to the first entry.
func (f *virtualFiles) reset() {
	f.FileState = format.FileState{Data: f.layout.DataHeader, Index: f.layout.IndexHeader}
}

// dataEnd is where the next data entry will be, indexEnd where the next index entry will be.
func (f *virtualFiles) dataEnd() Position  { return Position{File: f.File, Offset: f.Data} }
func (f *virtualFiles) indexEnd() Position { return Position{File: f.File, Offset: f.Index} }

// full says whether 0-db would put an entry into the next file.
func (f *virtualFiles) full(key, value int) bool {
	end := uint64(f.Data) + uint64(value)
	return end > f.size || end+uint64(key)+uint64(f.layout.DataEntry) > 1<<32-1
}

// rotate goes to the next file.
func (f *virtualFiles) rotate() {
	f.File, f.Data, f.Index = f.File+1, f.layout.DataHeader, f.layout.IndexHeader
}

// put advances past an entry.
func (f *virtualFiles) put(key, value int) {
	f.Prev = f.Data
	f.Data += f.layout.DataEntry + uint32(key+value)
	f.Index += f.layout.IndexEntry + uint32(key)
}

// remove advances past a deletion.
func (f *virtualFiles) remove(key int) {
	f.Prev = f.Data
	f.Data += f.layout.DataEntry + uint32(key)
}

// touch notes that an entry of an index file was changed.
func (f *virtualFiles) touch(file uint32) {
	if file == f.touched && len(f.dirty) > 0 {
		return
	}
	f.dirty[file], f.touched = struct{}{}, file
}

// touchedFiles answers the dirty files in ascending order.
func (f *virtualFiles) touchedFiles() []uint32 { return slices.Sorted(maps.Keys(f.dirty)) }

// reach goes on to a state that the log had, if it is a later one.
func (f *virtualFiles) reach(st format.FileState) {
	if f.File < st.File || f.File == st.File && f.Data < st.Data {
		f.FileState = st
	}
}

// replay advances as a record did; made is the position of the index entry that a put created.
func (f *virtualFiles) replay(h *format.Head, made Position) {
	if h.Data.File > f.File {
		f.FileState = format.FileState{File: h.Data.File, Data: f.layout.DataHeader, Index: f.layout.IndexHeader}
	}
	switch h.Kind {
	case format.KindRotate:
		f.Prev = h.Prev
		return
	case format.KindPut:
		f.Index = made.Offset + f.layout.IndexEntry + uint32(h.KeyLen)
	}
	f.Prev = h.Data.Offset
	f.Data = h.Data.Offset + f.layout.DataEntry + uint32(h.KeyLen) + h.Length
}
