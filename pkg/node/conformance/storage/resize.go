package storage

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// storageOnPool asks for a file system on a pool of that name.
func storageOnPool(t *testing.T, s Subject) {
	pool := s.pool(t)
	spec := s.spec("7-1", 64*expect.MiB)
	spec.Pool = pool.Name
	f, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.NoError(t, err)
	if f.Pool != pool.Name {
		t.Errorf("it lies on pool %s, asked for was %s", f.Pool, pool.Name)
	}
	second, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.NoError(t, err)
	if second.Path != f.Path {
		t.Errorf("the second time it is %+v, the first %+v", second, f)
	}
	elsewhere := s.spec("7-1", 64*expect.MiB)
	elsewhere.Pool = "nopool"
	_, err = s.Client.CreateFilesystem(t.Context(), elsewhere)
	expect.Kind(t, err, node.Exist)
	expect.Text(t, err, "7-1", pool.Name, "nopool")

	elsewhere.Name = "7-2"
	_, err = s.Client.CreateFilesystem(t.Context(), elsewhere)
	expect.Kind(t, err, node.Refused)
	expect.Text(t, err, "7-2", "nopool", pool.Name)
	lacking := node.FilesystemSpec{Name: "7-2", Size: 64 * expect.MiB, DiskType: s.Lacks, Pool: pool.Name}
	_, err = s.Client.CreateFilesystem(t.Context(), lacking)
	expect.Kind(t, err, node.Refused)
	expect.Text(t, err, "7-2", pool.Name, string(s.Lacks), string(s.Offers))
	spec.Name, spec.Size = "7-2", 8<<40
	_, err = s.Client.CreateFilesystem(t.Context(), spec)
	expect.Kind(t, err, node.NoSpace)
	expect.Text(t, err, "7-2", "needs 8 TiB", "pool "+pool.Name)
	if names := s.names(t); !slices.Equal(names, []string{"7-1"}) {
		t.Errorf("there are %v", names)
	}
}

// pool is the only pool.
func (s Subject) pool(t *testing.T) node.Pool {
	t.Helper()
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if len(status.Pools) != 1 {
		t.Fatalf("status is %+v", status)
	}
	return status.Pools[0]
}

// resize sets a size, which must succeed, and checks the result.
func (s Subject) resize(t *testing.T, name string, size uint64) node.Filesystem {
	t.Helper()
	f, err := s.Client.ResizeFilesystem(t.Context(), name, size)
	expect.NoError(t, err)
	seen, err := s.Client.InspectFilesystem(t.Context(), name)
	expect.NoError(t, err)
	if f.Name != name || f.Size != size || seen != f {
		t.Errorf("resized to %d bytes it is %+v, and then %+v", size, f, seen)
	}
	list, err := s.Client.ListFilesystems(t.Context())
	expect.NoError(t, err)
	f.Used = 0
	if !slices.Contains(list, f) {
		t.Errorf("list says %+v, want %+v among them", list, f)
	}
	return f
}

// storageResize changes the size of a full file system, and of one that isn't full
// any more.
func storageResize(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	s.create(t, "7-2", 16*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	s.fillFull(t, f.Path, "first", 64*expect.MiB)

	grown := s.resize(t, "7-1", 128*expect.MiB)
	if grown.Path != f.Path || grown.Pool != f.Pool {
		t.Errorf("grown it is %+v, before it was %+v", grown, f)
	}
	if reserved := s.pool(t).Reserved; reserved != 144*expect.MiB {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := s.fillFull(t, f.Path, "second", 66*expect.MiB); n < 60*expect.MiB {
		t.Errorf("after it grew by 64 MiB %d bytes could be written", n)
	}
	expect.NoError(t, errors.Join(s.Disk.Remove(filepath.Join(f.Path, "first")), s.Disk.Remove(filepath.Join(f.Path, "second"))))

	s.resize(t, "7-1", 32*expect.MiB)
	if reserved := s.pool(t).Reserved; reserved != 48*expect.MiB {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := s.fillFull(t, f.Path, "third", 32*expect.MiB); n < 28*expect.MiB {
		t.Errorf("after it shrank to 32 MiB %d bytes could be written", n)
	}
	s.wantFile(t, f.Path, "kept")
}

// fillFull writes to a file of dir until it is full, and no more than most.
func (s Subject) fillFull(t *testing.T, dir, name string, most uint64) uint64 {
	t.Helper()
	n, err := s.Disk.Fill(filepath.Join(dir, name), most+8*expect.MiB)
	if !errors.Is(err, unix.EDQUOT) || n > most {
		t.Errorf("%d bytes could be written, want at most %d (%v)", n, most, err)
	}
	return n
}

func storageResizeTwice(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	s.resize(t, "7-1", 64*expect.MiB)
	for range 2 {
		s.resize(t, "7-1", 96*expect.MiB)
	}
	for range 2 {
		s.resize(t, "7-1", 16*expect.MiB)
	}
	s.wantFile(t, f.Path, "kept")
	// Creating it again needs its present size.
	s.create(t, "7-1", 16*expect.MiB)
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-1", 64*expect.MiB))
	expect.Kind(t, err, node.Exist)
}

func storageGrowTooFar(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 16*expect.MiB)
	p := s.pool(t)
	free := p.Offered - p.Reserved
	for _, size := range []uint64{16*expect.MiB + free + 1, 1 << 63, expect.Most} {
		_, err := s.Client.ResizeFilesystem(t.Context(), "7-1", size)
		expect.Kind(t, err, node.NoSpace)
		expect.Text(t, err, "7-1", "from 16 MiB to", "needs", "more, free are", "pool "+f.Pool)
	}
	s.fillFull(t, f.Path, "data", 16*expect.MiB)
	if reserved := s.pool(t).Reserved; reserved != 16*expect.MiB {
		t.Errorf("reserved are %d bytes", reserved)
	}
	s.resize(t, "7-1", 16*expect.MiB+free)
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-2", 16*expect.MiB))
	expect.Kind(t, err, node.NoSpace)
	s.resize(t, "7-1", free)
	s.create(t, "7-2", 16*expect.MiB)
}

func storageShrinkTooFar(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	// It counts at once, though nothing made the disk commit it.
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "data"), 40*expect.MiB); err != nil {
		t.Fatal(err)
	}
	_, err := s.Client.ResizeFilesystem(t.Context(), "7-1", 32*expect.MiB)
	expect.Kind(t, err, node.Busy)
	expect.Text(t, err, "7-1", "from 64 MiB to 32 MiB", "it holds 40")
	if n := s.fillFull(t, f.Path, "more", 24*expect.MiB); n < 20*expect.MiB {
		t.Errorf("%d more bytes could be written", n)
	}
	expect.NoError(t, s.Disk.Remove(filepath.Join(f.Path, "data")))
	s.resize(t, "7-1", 32*expect.MiB)
	for _, size := range []uint64{0, 1} {
		_, err = s.Client.ResizeFilesystem(t.Context(), "7-1", size)
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, "7-1", "size")
	}
}

func storageResizeNothing(t *testing.T, s Subject) {
	_, err := s.Client.ResizeFilesystem(t.Context(), "9-9", 64*expect.MiB)
	expect.Kind(t, err, node.NotExist)
	expect.Text(t, err, "9-9")
	for _, name := range expect.BadNames() {
		_, err := s.Client.ResizeFilesystem(t.Context(), name, 64*expect.MiB)
		expect.Kind(t, err, node.Invalid)
	}
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}

func storageResizeRestart(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 16*expect.MiB)
	s.create(t, "7-2", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	s.resize(t, "7-1", 48*expect.MiB)
	s.resize(t, "7-2", 16*expect.MiB)
	s.Client = s.Restart(t)
	if again := s.create(t, "7-1", 48*expect.MiB); again.Path != f.Path {
		t.Errorf("after a restart it is %+v, before %+v", again, f)
	}
	s.create(t, "7-2", 16*expect.MiB)
	if reserved := s.pool(t).Reserved; reserved != 64*expect.MiB {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := s.fillFull(t, f.Path, "more", 48*expect.MiB); n < 44*expect.MiB {
		t.Errorf("after a restart %d bytes could be written", n)
	}
	s.wantFile(t, f.Path, "kept")
}
