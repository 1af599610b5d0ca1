package image

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/diskspace"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// The names in a shelf's folder.
const (
	pointerName  = "current.json"
	wholePrefix  = "sha256-"
	fetchPrefix  = ".fetch-"
	oldPrefix    = ".old-"
	tempPrefix   = ".tmp-"
	partPrefix   = ".part-"
	folderMode   = 0o700
	fileMode     = 0o644
	mostReserved = uint64(1) << 30
)

// shelf is the folder of versions. Only its owner's goroutine changes it; whole versions may be read meanwhile.
type shelf struct {
	path  string
	hook  atomicfile.Hook
	space func() (free, total uint64, err error)
}

// pointer is the content of current.json: the tag or the flist that was looked at last, and where it led.
type pointer struct {
	Reference string        `json:"reference"`
	Digest    digest.Digest `json:"digest"`
}

// newShelf is the shelf in a folder, which needn't exist yet. It touches nothing.
func newShelf(c Config) *shelf {
	s := &shelf{path: c.Folder, hook: c.Hook, space: c.Space}
	if s.space == nil {
		s.space = s.kernelSpace
	}
	return s
}

// prepare makes the folder, and removes what an earlier process has half written or half removed. What it has half
// fetched stays.
func (s *shelf) prepare() error {
	if err := atomicfile.MakeFolder(s.path, s.hook); err != nil {
		return err
	}
	return s.removeThose(func(name string) bool {
		return strings.HasPrefix(name, oldPrefix) || strings.HasPrefix(name, tempPrefix)
	})
}

// dropRemains removes all but whole versions, when nothing is fetched any more.
func (s *shelf) dropRemains() error {
	return s.removeThose(func(name string) bool {
		return strings.HasPrefix(name, oldPrefix) || strings.HasPrefix(name, tempPrefix) || strings.HasPrefix(name, fetchPrefix)
	})
}

// removeThose removes what has such a name. Without the folder there is nothing.
func (s *shelf) removeThose(which func(name string) bool) error {
	entries, err := os.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Wrap(err, "cannot list the images of VMs")
	}
	for _, e := range entries {
		if !which(e.Name()) {
			continue
		}
		if err := s.removeAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// step takes one step that changes the folder. Path is what tests know it by.
func (s *shelf) step(op atomicfile.Op, path string, do func() error) error {
	if s.hook == nil {
		return do()
	}
	if err := s.hook(atomicfile.Point{Op: op, Path: path}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.hook(atomicfile.Point{Op: op, Path: path, After: true})
}

func (s *shelf) join(name string) string { return filepath.Join(s.path, name) }

// folder is that of a whole version.
func (s *shelf) folder(d digest.Digest) string { return s.join(wholePrefix + d.Encoded()) }

// fetching is the folder of a version that is being fetched.
func (s *shelf) fetching(d digest.Digest) string { return s.join(fetchPrefix + d.Encoded()) }

// has reports whether a version is whole: its folder gets its name when it is.
func (s *shelf) has(d digest.Digest) bool {
	info, err := os.Lstat(s.folder(d))
	return err == nil && info.IsDir()
}

// current is the version that a reference led to last; empty when it isn't known or isn't here.
func (s *shelf) current(reference string) digest.Digest {
	raw, err := os.ReadFile(s.join(pointerName))
	var p pointer
	// Without it, or with a damaged one, the registry is asked.
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Reference != reference || p.Digest.Validate() != nil || !s.has(p.Digest) {
		return ""
	}
	return p.Digest
}

// point records where a reference leads now.
func (s *shelf) point(p pointer) error {
	if s.current(p.Reference) == p.Digest {
		return nil
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return errors.Wrap(err, "cannot record the image of VMs")
	}
	return s.write(s.path, pointerName, append(raw, '\n'), 0o600)
}

// write replaces a small file, whole and durable.
func (s *shelf) write(folder, name string, data []byte, mode fs.FileMode) error {
	temp, path := filepath.Join(folder, tempPrefix+name), filepath.Join(folder, name)
	err := s.step(atomicfile.Write, temp, func() error { return os.WriteFile(temp, data, mode) })
	if err == nil {
		err = s.settle(temp, path, mode)
	}
	if err == nil {
		err = s.syncFolder(folder)
	}
	return onDisk(err, path)
}

// settle makes a written file durable, and gives it its name.
func (s *shelf) settle(temp, path string, mode fs.FileMode) error {
	err := s.step(atomicfile.Sync, temp, func() error {
		file, err := os.OpenFile(temp, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := file.Chmod(mode); err != nil {
			return err
		}
		return file.Sync()
	})
	if err != nil {
		return err
	}
	return s.step(atomicfile.Rename, path, func() error { return os.Rename(temp, path) })
}

func (s *shelf) syncFolder(path string) error {
	return s.step(atomicfile.SyncDir, path, func() error {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.Sync()
	})
}

// begin makes the folder of a version that is to be fetched, or finds it with what it has; others are removed.
func (s *shelf) begin(d digest.Digest) error {
	if err := s.dropFetched(d); err != nil {
		return err
	}
	path := s.fetching(d)
	err := os.Mkdir(path, folderMode)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return onDisk(err, path)
}

// dropFetched removes what is fetched of versions but one; of all when that is empty.
func (s *shelf) dropFetched(but digest.Digest) error {
	return s.removeThose(func(name string) bool {
		return strings.HasPrefix(name, fetchPrefix) && (but == "" || name != fetchPrefix+but.Encoded())
	})
}

// finish makes a version whole whose files are all there: its own manifest is written, and its folder gets its name.
func (s *shelf) finish(d digest.Digest, manifest []byte) error {
	from, to := s.fetching(d), s.folder(d)
	if err := s.write(from, vmimage.Manifest, manifest, fileMode); err != nil {
		return err
	}
	err := s.step(atomicfile.Rename, to, func() error { return os.Rename(from, to) })
	if err == nil {
		err = s.syncFolder(s.path)
	}
	return onDisk(err, to)
}

// versions are the whole ones.
func (s *shelf) versions() ([]digest.Digest, error) {
	entries, err := os.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Wrap(err, "cannot list the images of VMs")
	}
	var out []digest.Digest
	for _, e := range entries {
		hex, ok := strings.CutPrefix(e.Name(), wholePrefix)
		if d := digest.NewDigestFromEncoded(digest.SHA256, hex); ok && d.Validate() == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// remove removes a whole version. It is away at once, or not at all.
func (s *shelf) remove(d digest.Digest) error {
	away := oldPrefix + d.Encoded()
	if err := s.removeAll(away); err != nil {
		return err
	}
	err := s.step(atomicfile.Rename, s.join(away), func() error { return os.Rename(s.folder(d), s.join(away)) })
	if err == nil {
		err = s.syncFolder(s.path)
	}
	if err != nil {
		return onDisk(err, s.folder(d))
	}
	return s.removeAll(away)
}

func (s *shelf) removeAll(name string) error {
	path := s.join(name)
	return onDisk(s.step(atomicfile.Remove, path, func() error { return os.RemoveAll(path) }), path)
}

// room fails with NoSpace when there isn't that much room beside what is kept for the node: a gibibyte, or a 20th of a
// small file system.
func (s *shelf) room(bytes int64) error {
	free, total, err := s.space()
	if err != nil {
		return err
	}
	reserved := min(mostReserved, total/20)
	if free < reserved+uint64(bytes) {
		return node.Errorf(node.NoSpace, "cannot fetch the image: %d bytes are needed, and %d are kept for the node; %s has %d free", bytes, reserved, s.path, free)
	}
	return nil
}

func (s *shelf) kernelSpace() (free, total uint64, err error) {
	space, err := diskspace.Of(s.path)
	return space.Free, space.Total, err
}

// onDisk gives an error of the disk its kind.
func onDisk(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return node.Errorf(node.NoSpace, "cannot write %s: the disk is full", path)
	}
	return errors.Wrapf(err, "cannot write %s", path)
}
