package storage

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// VDisksClient is the interface of the stub of node.VDisks.
type VDisksClient interface {
	Allocate(ctx context.Context, name string, size uint64) (node.VDisk, error)
	Deallocate(ctx context.Context, name string) error
	Inspect(ctx context.Context, name string) (node.VDisk, error)
	List(ctx context.Context) ([]node.VDisk, error)
}

// VDisksSubject is a new module of virtual disks: empty, with room for 300 MiB to
// 4 GiB.
type VDisksSubject struct {
	Client VDisksClient
	// Restart kills the module like kill -9, starts it again on the same
	// state, and returns the new client.
	Restart func(t *testing.T) VDisksClient
}

// VDisksSuite tests an implementation of node.VDisks. Each part gets its own subject
// from open.
func VDisksSuite(t *testing.T, open func(t *testing.T) VDisksSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s VDisksSubject)
	}{
		{"allocate", vdisksAllocate},
		{"twice", vdisksTwice},
		{"differs", vdisksDiffers},
		{"remove", vdisksRemove},
		{"remove what isn't there", vdisksRemoveNothing},
		{"after a restart", vdisksRestart},
		{"bad names", vdisksBadNames},
		{"bad sizes", vdisksBadSizes},
		{"no space", vdisksNoSpace},
		{"at the same time", vdisksConcurrent},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

func (s VDisksSubject) allocate(t *testing.T, name string, size uint64) node.VDisk {
	t.Helper()
	d, err := s.Client.Allocate(t.Context(), name, size)
	expect.NoError(t, err)
	return d
}

func (s VDisksSubject) wantNames(t *testing.T, want ...string) {
	t.Helper()
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	names := []string{}
	for _, d := range list {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

func vdisksAllocate(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	var stat unix.Stat_t
	expect.NoError(t, unix.Stat(d.Path, &stat))
	if d.Name != "7-1" || d.Size != 32*expect.MiB || stat.Size != int64(32*expect.MiB) {
		t.Errorf("allocated %+v, its file has %d bytes", d, stat.Size)
	}
	if stat.Blocks*512 < stat.Size {
		t.Errorf("of %d bytes only %d are allocated", stat.Size, stat.Blocks*512)
	}
	if stat.Mode&0o077 != 0 {
		t.Errorf("others may use it: mode %o", stat.Mode)
	}
	seen, err := s.Client.Inspect(t.Context(), "7-1")
	expect.NoError(t, err)
	if seen != d {
		t.Errorf("inspect says %+v, allocate said %+v", seen, d)
	}
	s.wantNames(t, "7-1")
}

// stamp writes a mark to the middle of a disk.
func stamp(t *testing.T, d node.VDisk) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	expect.NoError(t, err)
	_, err = f.WriteAt([]byte("kept"), int64(d.Size/2))
	expect.NoError(t, errors.Join(err, f.Close()))
}

func wantStamp(t *testing.T, d node.VDisk) {
	t.Helper()
	f, err := os.Open(d.Path)
	expect.NoError(t, err)
	defer f.Close()
	b := make([]byte, 4)
	_, err = f.ReadAt(b, int64(d.Size/2))
	expect.NoError(t, err)
	if string(b) != "kept" {
		t.Errorf("the disk holds %q, want its data kept", b)
	}
}

func vdisksTwice(t *testing.T, s VDisksSubject) {
	first := s.allocate(t, "7-1", 32*expect.MiB)
	stamp(t, first)
	if second := s.allocate(t, "7-1", 32*expect.MiB); second != first {
		t.Errorf("the second time it is %+v, the first %+v", second, first)
	}
	wantStamp(t, first)
	s.wantNames(t, "7-1")
}

func vdisksDiffers(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	stamp(t, d)
	for _, size := range []uint64{16 * expect.MiB, 64 * expect.MiB} {
		_, err := s.Client.Allocate(t.Context(), "7-1", size)
		expect.Kind(t, err, node.Exist)
		expect.Text(t, err, "7-1")
	}
	wantStamp(t, d)
	seen, err := s.Client.Inspect(t.Context(), "7-1")
	expect.NoError(t, err)
	if seen != d {
		t.Errorf("it is now %+v", seen)
	}
}

func vdisksRemove(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	other := s.allocate(t, "7-2", 32*expect.MiB)
	stamp(t, other)
	expect.NoError(t, s.Client.Deallocate(t.Context(), "7-1"))
	if _, err := os.Lstat(d.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file is still there: %v", err)
	}
	expect.Kind(t, s.Client.Deallocate(t.Context(), "7-1"), node.NotExist)
	s.wantNames(t, "7-2")
	wantStamp(t, other)
}

func vdisksRemoveNothing(t *testing.T, s VDisksSubject) {
	err := s.Client.Deallocate(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	expect.Text(t, err, "9-9")
	_, err = s.Client.Inspect(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	s.wantNames(t)
}

func vdisksRestart(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.allocate(t, "7-2", 32*expect.MiB)
	stamp(t, d)
	expect.NoError(t, s.Client.Deallocate(t.Context(), "7-2"))
	s.Client = s.Restart(t)
	s.wantNames(t, "7-1")
	if again := s.allocate(t, "7-1", 32*expect.MiB); again != d {
		t.Errorf("after a restart it is %+v, before %+v", again, d)
	}
	wantStamp(t, d)
}

func vdisksBadNames(t *testing.T, s VDisksSubject) {
	for _, name := range expect.BadNames() {
		_, err := s.Client.Allocate(t.Context(), name, 32*expect.MiB)
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.Deallocate(t.Context(), name), node.Invalid)
		_, err = s.Client.Inspect(t.Context(), name)
		expect.Kind(t, err, node.Invalid)
	}
	s.wantNames(t)
}

func vdisksBadSizes(t *testing.T, s VDisksSubject) {
	for _, size := range []uint64{0, 1, 511, 512, 4097, expect.Most} {
		_, err := s.Client.Allocate(t.Context(), "7-1", size)
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, "7-1", "4096")
	}
	s.wantNames(t)
}

func vdisksNoSpace(t *testing.T, s VDisksSubject) {
	_, err := s.Client.Allocate(t.Context(), "7-1", 8<<40)
	expect.Kind(t, err, node.NoSpace)
	expect.Text(t, err, "7-1", "needs 8 TiB", "free are ")
	s.wantNames(t)
}

func vdisksConcurrent(t *testing.T, s VDisksSubject) {
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { _, errs[i] = s.Client.Allocate(t.Context(), "7-1", 16*expect.MiB) })
	}
	group.Wait()
	expect.NoError(t, errors.Join(errs...))
	s.wantNames(t, "7-1")
}
