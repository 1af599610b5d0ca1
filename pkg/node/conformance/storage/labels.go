package storage

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// keep makes a file system of that hash with some content.
func (s Subject) keep(t *testing.T, hash string) node.Filesystem {
	t.Helper()
	spec := s.spec("7-1", 64*expect.MiB)
	spec.Hash = hash
	f, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.NoError(t, err)
	if f.Hash != hash {
		t.Errorf("made %+v, want the hash %q", f, hash)
	}
	expect.NoError(t, s.Disk.Write(filepath.Join(f.Path, "data"), []byte("kept")))
	return f
}

// wantHash fails unless the file system is the one of keep and has that hash.
func (s Subject) wantHash(t *testing.T, f node.Filesystem, hash string) {
	t.Helper()
	list, err := s.Client.ListFilesystems(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Name != f.Name || list[0].Size != f.Size || list[0].Hash != hash {
		t.Errorf("there are %+v, want the one of hash %q", list, hash)
	}
	s.wantFile(t, f.Path, "kept")
}

func storageAnotherHash(t *testing.T, s Subject) {
	f := s.keep(t, expect.OneHash)
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			spec := s.spec("7-1", 64*expect.MiB)
			spec.Hash, spec.AdoptUnlabelled = hash, adopt
			_, err := s.Client.CreateFilesystem(t.Context(), spec)
			expect.Kind(t, err, node.Exist)
			expect.Text(t, err, "7-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, f, expect.OneHash)
	spec := s.spec("7-1", 64*expect.MiB)
	spec.Hash = expect.OneHash
	if again, err := s.Client.CreateFilesystem(t.Context(), spec); err != nil || again.Path != f.Path {
		t.Errorf("by its own hash it is %+v, %v", again, err)
	}
	// It keeps its hash when it is resized, and over a restart.
	resized, err := s.Client.ResizeFilesystem(t.Context(), "7-1", 80*expect.MiB)
	expect.NoError(t, err)
	if resized.Hash != expect.OneHash {
		t.Errorf("resized it is %+v", resized)
	}
	s.Client = s.Restart(t)
	f.Size = 80 * expect.MiB
	s.wantHash(t, f, expect.OneHash)
	spec.Name, spec.Hash = "7-2", "no hash"
	_, err = s.Client.CreateFilesystem(t.Context(), spec)
	expect.Kind(t, err, node.Invalid)
}

func storageUnlabelled(t *testing.T, s Subject) {
	f := s.keep(t, "")
	spec := s.spec("7-1", 64*expect.MiB)
	spec.Hash = expect.OneHash
	_, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, f, "")
}

func storageAdopted(t *testing.T, s Subject) {
	f := s.keep(t, "")
	spec := s.spec("7-1", 32*expect.MiB)
	spec.Hash, spec.AdoptUnlabelled = expect.OneHash, true
	_, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, f, "")
	spec.Size = 64 * expect.MiB
	adopted, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.NoError(t, err)
	if adopted.Hash != expect.OneHash || adopted.Path != f.Path {
		t.Errorf("adopted %+v", adopted)
	}
	s.Client = s.Restart(t)
	s.wantHash(t, f, expect.OneHash)
	spec.Hash = expect.AnotherHash
	_, err = s.Client.CreateFilesystem(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
}

func storageAdoptedFull(t *testing.T, s Subject) {
	f := s.keep(t, "")
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "more"), 80*expect.MiB); !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("writing past the size gives %v", err)
	}
	spec := s.spec("7-1", 64*expect.MiB)
	spec.Hash, spec.AdoptUnlabelled = expect.OneHash, true
	_, err := s.Client.CreateFilesystem(t.Context(), spec)
	expect.NoError(t, err)
	s.wantHash(t, f, expect.OneHash)
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "again"), 16*expect.MiB); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("once it is adopted, writing past the size gives %v", err)
	}
}
