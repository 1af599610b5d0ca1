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

func storageCreate(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	if f.Name != "7-1" || f.Size != 64*expect.MiB || f.DiskType != s.Offers || f.Pool == "" || !filepath.IsAbs(f.Path) {
		t.Fatalf("created %+v", f)
	}
	entries, err := s.Disk.Names(f.Path)
	expect.NoError(t, err)
	if len(entries) != 0 {
		t.Errorf("a new file system holds %v", entries)
	}
	seen, err := s.Client.InspectFilesystem(t.Context(), "7-1")
	expect.NoError(t, err)
	if seen != f {
		t.Errorf("inspect says %+v, create said %+v", seen, f)
	}
	list, err := s.Client.ListFilesystems(t.Context())
	expect.NoError(t, err)
	f.Used = 0
	if len(list) != 1 || list[0] != f {
		t.Errorf("list says %+v, want only %+v", list, f)
	}
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if len(status.Pools) != 1 || len(status.BrokenPools)+len(status.BrokenDevices) != 0 {
		t.Fatalf("status is %+v", status)
	}
	p := status.Pools[0]
	if p.Name != f.Pool || p.DiskType != s.Offers || p.Reserved != 64*expect.MiB || p.Total == 0 || p.Used == 0 || p.Offered == 0 || len(p.Devices) != 1 {
		t.Errorf("pool is %+v", p)
	}
	if status.Quota != "simple" && status.Quota != "qgroup" {
		t.Errorf("quota is %q", status.Quota)
	}
}

func storageTwice(t *testing.T, s Subject) {
	first := s.create(t, "7-1", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(first.Path, "data"), []byte("kept")))
	second := s.create(t, "7-1", 64*expect.MiB)
	second.Used = first.Used
	if second != first {
		t.Errorf("the second time it is %+v, the first %+v", second, first)
	}
	s.wantFile(t, first.Path, "kept")
	if names := s.names(t); !slices.Equal(names, []string{"7-1"}) {
		t.Errorf("there are %v", names)
	}
}

func (s Subject) wantFile(t *testing.T, dir, text string) {
	t.Helper()
	data, err := s.Disk.Read(filepath.Join(dir, "data"))
	expect.NoError(t, err)
	if string(data) != text {
		t.Errorf("the data is %q, want %q", data, text)
	}
}

func storageDiffers(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	for _, spec := range []node.FilesystemSpec{
		s.spec("7-1", 32*expect.MiB),
		s.spec("7-1", 128*expect.MiB),
		{Name: "7-1", Size: 64 * expect.MiB, DiskType: s.Lacks},
	} {
		_, err := s.Client.CreateFilesystem(t.Context(), spec)
		expect.Kind(t, err, node.Exist)
		expect.Text(t, err, "7-1")
	}
	s.wantFile(t, f.Path, "kept")
	after, err := s.Client.InspectFilesystem(t.Context(), "7-1")
	expect.NoError(t, err)
	if after.Size != 64*expect.MiB {
		t.Errorf("its size is now %d", after.Size)
	}
}

func storageRemove(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	other := s.create(t, "7-2", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("x")))
	expect.NoError(t, s.Disk.Write(filepath.Join(other.Path, "data"), []byte("other")))
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "7-1"))
	there, err := s.Disk.Exists(f.Path)
	expect.NoError(t, err)
	if there {
		t.Error("its path is still there")
	}
	_, err = s.Client.InspectFilesystem(t.Context(), "7-1")
	expect.Kind(t, err, node.NotExist)
	expect.Kind(t, s.Client.ReleaseFilesystem(t.Context(), "7-1"), node.NotExist)
	if names := s.names(t); !slices.Equal(names, []string{"7-2"}) {
		t.Errorf("there are %v", names)
	}
	s.wantFile(t, other.Path, "other")
	again := s.create(t, "7-1", 32*expect.MiB)
	if entries, err := s.Disk.Names(again.Path); err != nil || len(entries) != 0 {
		t.Errorf("made anew it holds %v (%v)", entries, err)
	}
}

func storageRemoveNothing(t *testing.T, s Subject) {
	err := s.Client.ReleaseFilesystem(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	expect.Text(t, err, "9-9")
	_, err = s.Client.InspectFilesystem(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}

func storageRestart(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	s.create(t, "7-2", 64*expect.MiB)
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "7-2"))
	s.Client = s.Restart(t)
	if names := s.names(t); !slices.Equal(names, []string{"7-1"}) {
		t.Fatalf("after a restart there are %v", names)
	}
	again := s.create(t, "7-1", 64*expect.MiB)
	again.Used = f.Used
	if again != f {
		t.Errorf("after a restart it is %+v, before %+v", again, f)
	}
	s.wantFile(t, f.Path, "kept")
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "more"), 80*expect.MiB); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("after a restart writing past the size gives %v", err)
	}
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-1", 32*expect.MiB))
	expect.Kind(t, err, node.Exist)
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "7-1"))
	expect.Kind(t, s.Client.ReleaseFilesystem(t.Context(), "7-2"), node.NotExist)
}

func storageBadNames(t *testing.T, s Subject) {
	for _, name := range expect.BadNames() {
		_, err := s.Client.CreateFilesystem(t.Context(), s.spec(name, 64*expect.MiB))
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.ReleaseFilesystem(t.Context(), name), node.Invalid)
		_, err = s.Client.InspectFilesystem(t.Context(), name)
		expect.Kind(t, err, node.Invalid)
	}
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}

func storageBadSpecs(t *testing.T, s Subject) {
	_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-1", 0))
	expect.Kind(t, err, node.Invalid)
	expect.Text(t, err, "7-1", "size", "0")
	_, err = s.Client.CreateFilesystem(t.Context(), node.FilesystemSpec{Name: "7-1", Size: 64 * expect.MiB, DiskType: "floppy"})
	expect.Kind(t, err, node.Invalid)
	expect.Text(t, err, "floppy", "SSD", "HDD")
	_, err = s.Client.CreateFilesystem(t.Context(), node.FilesystemSpec{Name: "7-1", Size: 64 * expect.MiB, DiskType: s.Lacks})
	expect.Kind(t, err, node.Refused)
	expect.Text(t, err, string(s.Lacks), string(s.Offers))
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}
