package conformance

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// storageOnPool asks for a file system on a pool of that name.
func storageOnPool(t *testing.T, s StorageSubject) {
	pool := s.pool(t)
	spec := s.spec("7-1", 64*mib)
	spec.Pool = pool.Name
	f, err := s.Client.CreateFilesystem(t.Context(), spec)
	must(t, err)
	if f.Pool != pool.Name {
		t.Errorf("it lies on pool %s, asked for was %s", f.Pool, pool.Name)
	}
	second, err := s.Client.CreateFilesystem(t.Context(), spec)
	must(t, err)
	if second.Path != f.Path {
		t.Errorf("the second time it is %+v, the first %+v", second, f)
	}
	elsewhere := s.spec("7-1", 64*mib)
	elsewhere.Pool = "nopool"
	_, err = s.Client.CreateFilesystem(t.Context(), elsewhere)
	wantKind(t, err, node.Exist)
	wantText(t, err, "7-1", pool.Name, "nopool")

	elsewhere.Name = "7-2"
	_, err = s.Client.CreateFilesystem(t.Context(), elsewhere)
	wantKind(t, err, node.Refused)
	wantText(t, err, "7-2", "nopool", pool.Name)
	lacking := node.FilesystemSpec{Name: "7-2", Size: 64 * mib, DiskType: s.Lacks, Pool: pool.Name}
	_, err = s.Client.CreateFilesystem(t.Context(), lacking)
	wantKind(t, err, node.Refused)
	wantText(t, err, "7-2", pool.Name, string(s.Lacks), string(s.Offers))
	spec.Name, spec.Size = "7-2", 8<<40
	_, err = s.Client.CreateFilesystem(t.Context(), spec)
	wantKind(t, err, node.NoSpace)
	wantText(t, err, "7-2", "needs 8 TiB", "pool "+pool.Name)
	if names := s.names(t); !slices.Equal(names, []string{"7-1"}) {
		t.Errorf("there are %v", names)
	}
}

// pool is the one that there is.
func (s StorageSubject) pool(t *testing.T) node.Pool {
	t.Helper()
	status, err := s.Client.Status(t.Context())
	must(t, err)
	if len(status.Pools) != 1 {
		t.Fatalf("status is %+v", status)
	}
	return status.Pools[0]
}

// resize sets a size, which must succeed, and checks what is told of it.
func (s StorageSubject) resize(t *testing.T, name string, size uint64) node.Filesystem {
	t.Helper()
	f, err := s.Client.ResizeFilesystem(t.Context(), name, size)
	must(t, err)
	seen, err := s.Client.InspectFilesystem(t.Context(), name)
	must(t, err)
	if f.Name != name || f.Size != size || seen != f {
		t.Errorf("resized to %d bytes it is %+v, and then %+v", size, f, seen)
	}
	list, err := s.Client.ListFilesystems(t.Context())
	must(t, err)
	f.Used = 0
	if !slices.Contains(list, f) {
		t.Errorf("list says %+v, want %+v among them", list, f)
	}
	return f
}

// storageResize changes the size of one that is full, and of one that isn't
// any more.
func storageResize(t *testing.T, s StorageSubject) {
	f := s.create(t, "7-1", 64*mib)
	s.create(t, "7-2", 16*mib)
	must(t, os.WriteFile(filepath.Join(f.Path, "data"), []byte("kept"), 0o600))
	fillFull(t, f.Path, "first", 64*mib)

	grown := s.resize(t, "7-1", 128*mib)
	if grown.Path != f.Path || grown.Pool != f.Pool {
		t.Errorf("grown it is %+v, before it was %+v", grown, f)
	}
	if reserved := s.pool(t).Reserved; reserved != 144*mib {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := fillFull(t, f.Path, "second", 66*mib); n < 60*mib {
		t.Errorf("after it grew by 64 MiB %d bytes could be written", n)
	}
	must(t, errors.Join(os.Remove(filepath.Join(f.Path, "first")), os.Remove(filepath.Join(f.Path, "second"))))

	s.resize(t, "7-1", 32*mib)
	if reserved := s.pool(t).Reserved; reserved != 48*mib {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := fillFull(t, f.Path, "third", 32*mib); n < 28*mib {
		t.Errorf("after it shrank to 32 MiB %d bytes could be written", n)
	}
	wantFile(t, f.Path, "kept")
}

// fillFull writes to a file of dir until no more goes in, and no more than most.
func fillFull(t *testing.T, dir, name string, most uint64) uint64 {
	t.Helper()
	n, err := fill(filepath.Join(dir, name), most+8*mib)
	if !errors.Is(err, unix.EDQUOT) || n > most {
		t.Errorf("%d bytes could be written, want at most %d (%v)", n, most, err)
	}
	return n
}

func storageResizeTwice(t *testing.T, s StorageSubject) {
	f := s.create(t, "7-1", 64*mib)
	must(t, os.WriteFile(filepath.Join(f.Path, "data"), []byte("kept"), 0o600))
	s.resize(t, "7-1", 64*mib)
	for range 2 {
		s.resize(t, "7-1", 96*mib)
	}
	for range 2 {
		s.resize(t, "7-1", 16*mib)
	}
	wantFile(t, f.Path, "kept")
	// Creating it again is of the size that it has now.
	s.create(t, "7-1", 16*mib)
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-1", 64*mib))
	wantKind(t, err, node.Exist)
}

func storageGrowTooFar(t *testing.T, s StorageSubject) {
	f := s.create(t, "7-1", 16*mib)
	p := s.pool(t)
	free := p.Offered - p.Reserved
	for _, size := range []uint64{16*mib + free + 1, 1 << 63, most} {
		_, err := s.Client.ResizeFilesystem(t.Context(), "7-1", size)
		wantKind(t, err, node.NoSpace)
		wantText(t, err, "7-1", "from 16 MiB to", "needs", "more, free are", "pool "+f.Pool)
	}
	fillFull(t, f.Path, "data", 16*mib)
	if reserved := s.pool(t).Reserved; reserved != 16*mib {
		t.Errorf("reserved are %d bytes", reserved)
	}
	s.resize(t, "7-1", 16*mib+free)
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-2", 16*mib))
	wantKind(t, err, node.NoSpace)
	s.resize(t, "7-1", free)
	s.create(t, "7-2", 16*mib)
}

func storageShrinkTooFar(t *testing.T, s StorageSubject) {
	f := s.create(t, "7-1", 64*mib)
	// It counts at once, though nothing made the disk commit it.
	if _, err := fill(filepath.Join(f.Path, "data"), 40*mib); err != nil {
		t.Fatal(err)
	}
	_, err := s.Client.ResizeFilesystem(t.Context(), "7-1", 32*mib)
	wantKind(t, err, node.Busy)
	wantText(t, err, "7-1", "from 64 MiB to 32 MiB", "it holds 40")
	if n := fillFull(t, f.Path, "more", 24*mib); n < 20*mib {
		t.Errorf("%d more bytes could be written", n)
	}
	must(t, os.Remove(filepath.Join(f.Path, "data")))
	s.resize(t, "7-1", 32*mib)
	for _, size := range []uint64{0, 1} {
		_, err = s.Client.ResizeFilesystem(t.Context(), "7-1", size)
		wantKind(t, err, node.Invalid)
		wantText(t, err, "7-1", "size")
	}
}

func storageResizeNothing(t *testing.T, s StorageSubject) {
	_, err := s.Client.ResizeFilesystem(t.Context(), "9-9", 64*mib)
	wantKind(t, err, node.NotExist)
	wantText(t, err, "9-9")
	for _, name := range badNames() {
		_, err := s.Client.ResizeFilesystem(t.Context(), name, 64*mib)
		wantKind(t, err, node.Invalid)
	}
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}

func storageResizeRestart(t *testing.T, s StorageSubject) {
	f := s.create(t, "7-1", 16*mib)
	s.create(t, "7-2", 64*mib)
	must(t, os.WriteFile(filepath.Join(f.Path, "data"), []byte("kept"), 0o600))
	s.resize(t, "7-1", 48*mib)
	s.resize(t, "7-2", 16*mib)
	s.Client = s.Restart(t)
	if again := s.create(t, "7-1", 48*mib); again.Path != f.Path {
		t.Errorf("after a restart it is %+v, before %+v", again, f)
	}
	s.create(t, "7-2", 16*mib)
	if reserved := s.pool(t).Reserved; reserved != 64*mib {
		t.Errorf("reserved are %d bytes", reserved)
	}
	if n := fillFull(t, f.Path, "more", 48*mib); n < 44*mib {
		t.Errorf("after a restart %d bytes could be written", n)
	}
	wantFile(t, f.Path, "kept")
}
