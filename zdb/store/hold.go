package store

import (
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// isFull says that an error is of a disk, or of a quota on it, that has no room.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

const (
	heldPage = 4096
	// heldMost is how many bytes of the index a store keeps in memory at most while its disk is full.
	heldMost = 64 << 20
	// heldTotal is how many all stores of a Shared keep.
	heldTotal = 256 << 20
)

// holder is a disk that keeps in memory what an opening writes to files of the index and a full disk
// has no room for. flush writes it when there is room again.
type holder struct {
	disk
	shared *Shared // counts what all keep; only its goroutine keeps anything
	mu     sync.Mutex
	on     bool // writes that don't fit are kept
	files  map[string]*held
	bytes  int64
}

// held is what one file would have beside what is on disk. size is the file's with it.
type held struct {
	pages map[int64][]byte // by number
	size  int64
}

func (h *holder) Open(path string, create bool) (file, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.files[path]
	f, err := h.disk.Open(path, create)
	if kept == nil && !(h.on && strings.HasPrefix(filepath.Base(path), "index-")) {
		return f, err
	}
	if err != nil && (kept == nil || len(kept.pages) == 0) && !(create && isFull(err)) {
		return nil, err
	}
	if kept == nil {
		kept = &held{pages: map[int64][]byte{}}
		if h.files == nil {
			h.files = map[string]*held{}
		}
		h.files[path] = kept
	}
	if err != nil {
		f = nil
	}
	return &heldFile{h: h, held: kept, path: path, f: f}, nil
}

func (h *holder) Remove(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kept := h.files[path]; kept != nil {
		h.count(-len(kept.pages))
		delete(h.files, path)
	}
	return h.disk.Remove(path)
}

// count counts pages that are kept, or no longer.
func (h *holder) count(pages int) {
	h.bytes += int64(pages) * heldPage
	h.shared.held += int64(pages) * heldPage
}

// drop forgets all that is kept.
func (h *holder) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shared.held -= h.bytes
	h.bytes, h.files = 0, nil
}

// stop ends the keeping of what doesn't fit.
func (h *holder) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = false
	maps.DeleteFunc(h.files, func(_ string, kept *held) bool { return len(kept.pages) == 0 })
}

// empty says that nothing is kept.
func (h *holder) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes == 0
}

// flush writes what is kept to where it belongs. No checkpoint may be running.
func (h *holder) flush() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, kept := range h.files {
		if err := h.flushFile(path, kept); err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		h.count(-len(kept.pages))
		clear(kept.pages) // open files look here
		delete(h.files, path)
	}
	return nil
}

func (h *holder) flushFile(path string, kept *held) error {
	if len(kept.pages) == 0 {
		return nil
	}
	f, err := h.disk.Open(path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range slices.Sorted(maps.Keys(kept.pages)) {
		page := kept.pages[n][:min(heldPage, kept.size-n*heldPage)]
		if err := f.WriteAt(page, nil, n*heldPage); err != nil {
			return err
		}
	}
	return nil
}

// heldFile is an open file of a holder; f is nil when it couldn't be made.
type heldFile struct {
	h *holder
	*held
	path string
	f    file
}

func (w *heldFile) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}

func (w *heldFile) Sync() error {
	if w.f == nil {
		return nil
	}
	return w.f.Sync()
}

func (w *heldFile) Allocate(_, _ int64) error { return nil }

func (w *heldFile) ReadAt(p []byte, off int64) (int, error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.pages) == 0 && w.f != nil {
		return w.f.ReadAt(p, off)
	}
	n := int(max(0, min(int64(len(p)), w.size-off)))
	if err := w.under(p[:n], off); err != nil {
		return 0, err
	}
	for at := 0; at < n; {
		number, in := (off+int64(at))/heldPage, (off+int64(at))%heldPage
		m := min(n-at, int(heldPage-in))
		if page := w.pages[number]; page != nil {
			copy(p[at:at+m], page[in:])
		}
		at += m
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// under reads what the disk has.
func (w *heldFile) under(p []byte, off int64) error {
	if w.f == nil {
		clear(p)
		return nil
	}
	return readZeros(w.f, p, off)
}

func (w *heldFile) WriteAt(a, b []byte, off int64) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.pages) == 0 && w.f != nil {
		err := w.f.WriteAt(a, b, off)
		if err == nil || !w.h.on || !isFull(err) {
			return err
		}
		if w.size, err = w.length(); err != nil {
			return err
		}
	}
	if more := int64(len(a)+len(b)) + 2*heldPage; w.h.bytes+more > heldMost || w.h.shared.held+more > heldTotal {
		return unix.ENOSPC
	}
	for _, p := range [][]byte{a, b} {
		if err := w.keep(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

// length is the file's size on disk: a full one may have taken the beginning of a write.
func (w *heldFile) length() (int64, error) {
	files, err := w.h.disk.List(filepath.Dir(w.path))
	return files[filepath.Base(w.path)], err
}

func (w *heldFile) keep(p []byte, off int64) error {
	for len(p) > 0 {
		number, in := off/heldPage, off%heldPage
		page := w.pages[number]
		if page == nil {
			page = make([]byte, heldPage)
			if err := w.under(page, number*heldPage); err != nil {
				return err
			}
			w.pages[number] = page
			w.h.count(1)
		}
		n := copy(page[in:], p)
		p, off = p[n:], off+int64(n)
		w.size = max(w.size, off)
	}
	return nil
}

func (w *heldFile) Truncate(size int64) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if size > 0 && (len(w.pages) > 0 || w.f == nil) {
		// Only an index that is made again is made longer, with holes.
		if size > w.size {
			return w.keep([]byte{0}, size-1)
		}
		return nil
	}
	w.h.count(-len(w.pages))
	clear(w.pages)
	w.size = 0
	if w.f == nil {
		return nil
	}
	err := w.f.Truncate(size)
	if err != nil && w.h.on && isFull(err) && size > 0 {
		if w.size, err = w.length(); err == nil && size > w.size {
			err = w.keep([]byte{0}, size-1)
		}
	}
	return err
}
