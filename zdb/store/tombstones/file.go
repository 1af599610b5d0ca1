package tombstones

import (
	"path/filepath"
	"slices"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// File is the file of tombstones.
type File struct {
	Bytes int64 // where its good part ends
	Room  int64 // how far it is set aside

	disk  disk.Disk
	dir   string
	least int64 // bytes it had when it was last written whole
}

// New is the file in a folder, before it is read.
func New(d disk.Disk, dir string) *File { return &File{disk: d, dir: dir} }

// Path is the file's.
func (f *File) Path() string { return filepath.Join(f.dir, Name) }

// Unused is how many bytes are set aside and not written.
func (f *File) Unused() int64 { return max(0, f.Room-f.Bytes) }

// Check finds out where the good part of a file of size bytes ends, and whether a part of it is damaged.
func (f *File) Check(size int64) (damaged bool, err error) {
	if size == 0 {
		return false, nil
	}
	file, err := f.disk.Open(f.Path(), false)
	if err != nil {
		return false, err
	}
	defer file.Close()
	f.Bytes, damaged, err = Read(file, size, func([]format.Place) {})
	f.least = f.Bytes
	return damaged, err
}

// Load answers all places in ascending order.
func (f *File) Load() ([]format.Place, error) {
	if f.Bytes == 0 {
		return nil, nil
	}
	file, err := f.disk.Open(f.Path(), false)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []format.Place
	_, _, err = Read(file, f.Bytes, func(p []format.Place) { out = append(out, p...) })
	slices.Sort(out)
	return out, err
}

// Write is a checkpoint's part of the file. Run is for another goroutine and touches only Write's fields.
type Write struct {
	file  File // as it was when the checkpoint was planned
	add   []format.Place
	keep  func(segment uint32) bool // not nil: write the file anew, with the places in these segments
	after int64                     // where the good part will end
	done  bool
}

// Plan prepares to add places. When the file has grown much it is written anew, with the places
// in the segments that there will be.
func (f *File) Plan(add []format.Place, segments map[uint32]bool) *Write {
	w := &Write{file: *f, add: add, after: f.Bytes + size(len(add))}
	if w.after > smallSize && w.after > 2*f.least {
		w.keep = func(n uint32) bool { return segments[n] }
	}
	return w
}

// Run writes and syncs.
func (w *Write) Run() error {
	if w.keep != nil {
		return w.rewrite()
	}
	if len(w.add) == 0 {
		return nil
	}
	f := &w.file
	file, err := f.disk.Open(f.Path(), true)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.WriteAt(appendBlocks(nil, w.add), nil, f.Bytes); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	w.done = true
	if f.Bytes == 0 {
		return f.disk.SyncDir(f.dir)
	}
	return nil
}

func (w *Write) rewrite() error {
	f := &w.file
	file, err := f.disk.Open(f.Path(), true)
	if err != nil {
		return err
	}
	kept := w.add
	_, _, err = Read(file, f.Bytes, func(old []format.Place) {
		for _, at := range old {
			if w.keep(at.Segment()) {
				kept = append(kept, at)
			}
		}
	})
	file.Close()
	if err != nil {
		return err
	}
	b := appendBlocks(nil, kept)
	w.after = int64(len(b))
	if err := disk.WriteWhole(f.disk, f.Path(), b); err != nil {
		return err
	}
	w.done = true
	return f.disk.SyncDir(f.dir)
}

// End notes a Write whose Run has ended; it answers whether the places are in the file.
func (f *File) End(w *Write) bool {
	if w.done {
		f.Bytes = w.after
		if w.keep != nil {
			f.least = w.after
		}
	}
	return w.done
}
