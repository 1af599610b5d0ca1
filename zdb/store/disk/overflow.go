package disk

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

const (
	pageSize = 4096
	// maxOverflow is how many bytes of the index one store keeps in memory at most.
	maxOverflow = 64 << 20
	// maxTotal is how many all stores of a Pool keep.
	maxTotal = 256 << 20
)

// Overflow is a disk that keeps in memory recovery's writes to index files for which a full disk
// has no room. Flush writes them when there is room again.
type Overflow struct {
	Disk
	Shared   *Pool // counts the pages of all stores; only its goroutine adds any
	mu       sync.Mutex
	On       bool // writes that fail for lack of room go to memory
	overlays map[string]*overlay
	bytes    int64
}

// overlay is the pages of one file that aren't on disk. size is the file's with them.
type overlay struct {
	pages map[int64][]byte // by number
	size  int64
}

// Open implements Disk.
func (h *Overflow) Open(path string, create bool) (File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.overlays[path]
	f, err := h.Disk.Open(path, create)
	if kept == nil && !(h.On && strings.HasPrefix(filepath.Base(path), "index-")) {
		return f, err
	}
	if err != nil && (kept == nil || len(kept.pages) == 0) && !(create && IsFull(err)) {
		return nil, err
	}
	if kept == nil {
		kept = &overlay{pages: map[int64][]byte{}}
		if h.overlays == nil {
			h.overlays = map[string]*overlay{}
		}
		h.overlays[path] = kept
	}
	if err != nil {
		f = nil
	}
	return &overflowFile{h: h, overlay: kept, path: path, f: f}, nil
}

// Remove implements Disk.
func (h *Overflow) Remove(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kept := h.overlays[path]; kept != nil {
		h.count(-len(kept.pages))
		delete(h.overlays, path)
	}
	return h.Disk.Remove(path)
}

// count adds to the number of pages in memory.
func (h *Overflow) count(pages int) {
	h.bytes += int64(pages) * pageSize
	h.Shared.overflow += int64(pages) * pageSize
}

// Drop forgets all pages.
func (h *Overflow) Drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Shared.overflow -= h.bytes
	h.bytes, h.overlays = 0, nil
}

// Stop ends recovery: later writes fail on a full disk. Pages in memory stay until Flush.
func (h *Overflow) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.On = false
	maps.DeleteFunc(h.overlays, func(_ string, kept *overlay) bool { return len(kept.pages) == 0 })
}

// Empty says whether there are no pages in memory.
func (h *Overflow) Empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes == 0
}

// Flush writes the pages to their files. No checkpoint may be running.
func (h *Overflow) Flush() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, kept := range h.overlays {
		if err := h.flushFile(path, kept); err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		h.count(-len(kept.pages))
		clear(kept.pages) // open files look here
		delete(h.overlays, path)
	}
	return nil
}

func (h *Overflow) flushFile(path string, kept *overlay) error {
	if len(kept.pages) == 0 {
		return nil
	}
	f, err := h.Disk.Open(path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range slices.Sorted(maps.Keys(kept.pages)) {
		page := kept.pages[n][:min(pageSize, kept.size-n*pageSize)]
		if err := f.WriteAt(page, nil, n*pageSize); err != nil {
			return err
		}
	}
	return nil
}

// overflowFile is an open file of an Overflow; f is nil when it couldn't be created.
type overflowFile struct {
	h *Overflow
	*overlay
	path string
	f    File
}

func (w *overflowFile) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}

func (w *overflowFile) Sync() error {
	if w.f == nil {
		return nil
	}
	return w.f.Sync()
}

func (w *overflowFile) Allocate(_, _ int64) error { return nil }

func (w *overflowFile) ReadAt(p []byte, off int64) (int, error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.pages) == 0 && w.f != nil {
		return w.f.ReadAt(p, off)
	}
	n := int(max(0, min(int64(len(p)), w.size-off)))
	if err := w.readBelow(p[:n], off); err != nil {
		return 0, err
	}
	for at := 0; at < n; {
		number, in := (off+int64(at))/pageSize, (off+int64(at))%pageSize
		m := min(n-at, int(pageSize-in))
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

// readBelow reads the file without its pages.
func (w *overflowFile) readBelow(p []byte, off int64) error {
	if w.f == nil {
		clear(p)
		return nil
	}
	return ReadZeros(w.f, p, off)
}

func (w *overflowFile) WriteAt(a, b []byte, off int64) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.pages) == 0 && w.f != nil {
		err := w.f.WriteAt(a, b, off)
		if err == nil || !w.h.On || !IsFull(err) {
			return err
		}
		if w.size, err = w.length(); err != nil {
			return err
		}
	}
	if more := int64(len(a)+len(b)) + 2*pageSize; w.h.bytes+more > maxOverflow || w.h.Shared.overflow+more > maxTotal {
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
func (w *overflowFile) length() (int64, error) {
	files, err := w.h.Disk.List(filepath.Dir(w.path))
	return files[filepath.Base(w.path)], err
}

func (w *overflowFile) keep(p []byte, off int64) error {
	for len(p) > 0 {
		number, in := off/pageSize, off%pageSize
		page := w.pages[number]
		if page == nil {
			page = make([]byte, pageSize)
			if err := w.readBelow(page, number*pageSize); err != nil {
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

func (w *overflowFile) Truncate(size int64) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if size > 0 && (len(w.pages) > 0 || w.f == nil) {
		// Only a file of the index that ends with holes is made longer.
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
	if err != nil && w.h.On && IsFull(err) && size > 0 {
		if w.size, err = w.length(); err == nil && size > w.size {
			err = w.keep([]byte{0}, size-1)
		}
	}
	return err
}
