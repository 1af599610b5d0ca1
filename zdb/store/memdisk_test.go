package store_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/croft-edge/croft/zdb/store"
)

// memDisk is a disk in memory that can be full, die in the middle of something, and
// lose unsynced writes.
type memDisk struct {
	mu    sync.Mutex
	files map[string]*memFile
	// since is the unsynced changes of folders, oldest first.
	since  []folderChange
	space  int64 // bytes that may be used; 0: any
	left   int   // operations until the disk is dead; negative: it lives
	failed bool  // the store said so
	torn   bool  // the write in which it died was done by half
	locks  map[string]bool
	syncs  int
	boot   uint64
}

type memFile struct {
	content []byte
	alloc   int64      // bytes that are set aside
	synced  []byte     // the content that survives a power cut
	writes  []memWrite // since then
}

type memWrite struct {
	off  int64
	data []byte
	cut  bool // a truncation to off
}

// folderChange undoes one change of a folder.
type folderChange struct {
	dir  string
	undo func(files map[string]*memFile)
}

const sector = 512

func newMemDisk() *memDisk {
	return &memDisk{files: map[string]*memFile{}, left: -1, locks: map[string]bool{}, boot: 1}
}

// crash answers the disk as another process finds it.
func (d *memDisk) crash() *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newMemDisk()
	out.boot = d.boot
	for name, f := range d.files {
		c := slices.Clone(f.content)
		out.files[name] = &memFile{content: c, synced: slices.Clone(c), alloc: f.alloc}
	}
	return out
}

// powerCut answers the disk after a power cut: any unsynced sector may be
// there or not, and the last changes of folders may be undone.
func (d *memDisk) powerCut(r *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := maps.Clone(d.files)
	keep := r.IntN(len(d.since) + 1)
	for i := len(d.since) - 1; i >= keep; i-- {
		d.since[i].undo(files)
	}
	out := newMemDisk()
	out.boot = d.boot + 1
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		c := slices.Clone(f.synced)
		luck := r.IntN(4)
		for _, w := range f.writes {
			c = w.survive(c, r, luck)
		}
		out.files[name] = &memFile{content: c, synced: slices.Clone(c), alloc: f.alloc}
	}
	return out
}

// survive applies the part of a write that a power cut left. luck 0 is nothing, 3 is all.
func (w memWrite) survive(c []byte, r *rand.Rand, luck int) []byte {
	if w.cut {
		if luck == 3 || luck > 0 && r.IntN(2) == 0 {
			return resize(c, w.off)
		}
		return c
	}
	for from := int64(0); from < int64(len(w.data)); {
		to := min(int64(len(w.data)), from+sector-(w.off+from)%sector)
		if luck == 3 || luck > 0 && r.IntN(4) < luck {
			c = resize(c, max(int64(len(c)), w.off+to))
			copy(c[w.off+from:], w.data[from:to])
		}
		from = to
	}
	return c
}

func resize(c []byte, n int64) []byte {
	if n <= int64(len(c)) {
		return c[:n]
	}
	return append(c, make([]byte, n-int64(len(c)))...)
}

var errDead = syscall.EIO

// step counts an operation that changes something.
func (d *memDisk) step() error {
	if d.left == 0 {
		return errDead
	}
	if d.left > 0 {
		d.left--
	}
	return nil
}

func (d *memDisk) Boot() uint64 { return d.boot }

func (d *memDisk) MakeDir(string) error { return nil }

func (d *memDisk) Lock(dir string) (func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[dir] {
		return nil, syscall.EAGAIN
	}
	d.locks[dir] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locks, dir)
	}, nil
}

func (d *memDisk) Open(path string, create bool) (store.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[path]
	if f == nil {
		if !create {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		if err := d.step(); err != nil {
			return nil, err
		}
		f = &memFile{}
		d.files[path] = f
		d.note(path, func(files map[string]*memFile) { delete(files, path) })
	}
	return &memHandle{d, f}, nil
}

func (d *memDisk) note(path string, undo func(map[string]*memFile)) {
	d.since = append(d.since, folderChange{filepath.Dir(path), undo})
}

func (d *memDisk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	f := d.files[path]
	if f == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	delete(d.files, path)
	d.note(path, func(files map[string]*memFile) { files[path] = f })
	return nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	f, old := d.files[from], d.files[to]
	delete(d.files, from)
	d.files[to] = f
	d.note(to, func(files map[string]*memFile) {
		files[from] = f
		delete(files, to)
		if old != nil {
			files[to] = old
		}
	})
	return nil
}

func (d *memDisk) List(dir string) (map[string]int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]int64{}
	for path, f := range d.files {
		if filepath.Dir(path) == dir {
			out[filepath.Base(path)] = int64(len(f.content))
		}
	}
	return out, nil
}

func (d *memDisk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	d.since = slices.DeleteFunc(d.since, func(c folderChange) bool { return c.dir == dir })
	return nil
}

func (d *memDisk) used() int64 {
	n := int64(0)
	for _, f := range d.files {
		n += f.takes()
	}
	return n
}

func (f *memFile) takes() int64 { return max(int64(len(f.content)), f.alloc) }

type memHandle struct {
	d *memDisk
	f *memFile
}

func (h *memHandle) Close() error { return nil }

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if off >= int64(len(h.f.content)) {
		return 0, io.EOF
	}
	n := copy(p, h.f.content[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *memHandle) WriteAt(a, b []byte, off int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	data := append(slices.Clone(a), b...)
	err := h.d.step()
	if err != nil {
		// The process died in the middle of the write.
		data = data[:len(data)/2]
	}
	if err != nil && h.d.torn {
		return err
	}
	if more := off + int64(len(data)) - h.f.takes(); h.d.space > 0 && more > 0 && h.d.used()+more > h.d.space {
		err = syscall.ENOSPC
		data = data[:max(0, int64(len(data))-(h.d.used()+more-h.d.space))]
	}
	h.f.content = resize(h.f.content, max(int64(len(h.f.content)), off+int64(len(data))))
	copy(h.f.content[off:], data)
	h.f.writes = append(h.f.writes, memWrite{off: off, data: data})
	h.d.torn = h.d.torn || errors.Is(err, errDead)
	return err
}

func (h *memHandle) Allocate(off, n int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.step(); err != nil {
		return err
	}
	if more := off + n - h.f.takes(); h.d.space > 0 && more > 0 && h.d.used()+more > h.d.space {
		return syscall.ENOSPC
	}
	h.f.alloc = max(h.f.alloc, off+n)
	return nil
}

func (h *memHandle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.step(); err != nil {
		return err
	}
	h.f.content = resize(h.f.content, size)
	h.f.alloc = 0
	h.f.writes = append(h.f.writes, memWrite{off: size, cut: true})
	return nil
}

func (h *memHandle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.step(); err != nil {
		return err
	}
	h.d.syncs++
	h.f.synced, h.f.writes = slices.Clone(h.f.content), nil
	return nil
}
