package guest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

// TestReadAhead reads a file of several blocks and a part of one ahead: the kernel has all of its pages then.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/var/tmp", "croft-readahead-") // on a disk, unlike /tmp of some machines: files in memory have all pages
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, bytes.Repeat([]byte("croft"), 700_001), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if missing := missingPages(t, file); missing == 0 {
		t.Logf("%s is in memory: that its pages are read ahead isn't shown here", dir)
	}
	if err := guest.ReadAhead(path); err != nil {
		t.Fatal(err)
	}
	if missing := missingPages(t, file); missing > 0 {
		t.Errorf("%d pages aren't in memory", missing)
	}
	if err := guest.ReadAhead(path + "-none"); err == nil {
		t.Error("a file that isn't there was read")
	}
	if err := guest.ReadAhead(dir); err == nil {
		t.Error("a folder was read")
	}
}

// missingPages counts the pages of a file that aren't in the page cache.
func missingPages(t *testing.T, file *os.File) (missing int) {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	in := make([]byte, (len(mapped)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, page := range in {
		if page&1 == 0 {
			missing++
		}
	}
	return missing
}
