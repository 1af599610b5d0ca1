package volume

import (
	"os"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage/btrfs"
)

// Filesystems are the subvolumes of a pool. The pool must be mounted, and is open as f
// where a method takes one.
type Filesystems struct {
	shelf
	limits limits
	log    zerolog.Logger
}

// NewFilesystems returns those of a pool. Prepare comes before any change.
func NewFilesystems(p Pool, log zerolog.Logger) *Filesystems {
	return &Filesystems{shelf: newShelf(p, "filesystem", "volumes", filesystemLabel), log: log}
}

// Quota is the kind of quota in force; empty before Prepare.
func (v *Filesystems) Quota() btrfs.Quota { return v.limits.kind }

// Used is how many bytes are in the file system of that name, and in subvolumes nested in it.
func (v *Filesystems) Used(f *btrfs.FS, name string) (uint64, error) {
	id, err := btrfs.SubvolumeID(v.Place(name))
	if err != nil {
		return 0, err
	}
	return v.limits.used(f, id)
}

// Create makes a file system of that label. It appears under its name
// when it has its limit and its label; before that, a crash leaves a temporary
// that the next Open clears away.
func (v *Filesystems) Create(f *btrfs.FS, l Label) (err error) {
	name := l.Name
	temporary := v.Place(newPrefix + name)
	if err := v.clear(f, newPrefix+name); err != nil {
		return err
	}
	if err := v.step("note filesystem"); err != nil {
		return err
	}
	lost := v.index.has(name)
	if err := v.index.add(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = withUndo(err, v.clear(f, newPrefix+name))
			err = withUndo(err, v.index.remove(name))
		}
	}()
	if err := v.step("create subvolume"); err != nil {
		return err
	}
	if err := btrfs.CreateSubvolume(v.dir, newPrefix+name); err != nil {
		return err
	}
	if err := v.finish(f, temporary, l); err != nil {
		return err
	}
	if err := v.step("name subvolume"); err != nil {
		return err
	}
	if lost {
		v.log.Error().Str("pool", v.pool).Str("name", name).Msg("a filesystem was removed by somebody else: it is made anew, empty, and what was in it is lost")
	}
	return rename(temporary, v.Place(name))
}

// finish limits and labels a new subvolume.
func (v *Filesystems) finish(f *btrfs.FS, path string, l Label) error {
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if err := v.step("limit subvolume"); err != nil {
		return err
	}
	if err := v.limits.set(f, id, l.Size); err != nil {
		return err
	}
	if err := v.step("label subvolume"); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o755); err != nil {
		return btrfs.Wrap(err, "cannot set the mode of %s", path)
	}
	return setLabel(path, filesystemLabel, l)
}

// Remove destroys the file system of that name. It loses its name
// first, so that half of it is never seen.
func (v *Filesystems) Remove(f *btrfs.FS, name string) error {
	if err := v.clear(f, gonePrefix+name); err != nil {
		return err
	}
	if err := v.step("unname subvolume"); err != nil {
		return err
	}
	gone := v.Place(gonePrefix + name)
	if err := rename(v.Place(name), gone); err != nil {
		return err
	}
	if err := v.step("destroy subvolume"); err != nil {
		return err
	}
	if err := v.destroy(f, gone); err != nil {
		return err
	}
	if err := v.step("forget filesystem"); err != nil {
		return err
	}
	return v.index.remove(name)
}

// destroy removes the subvolume at path and all in it.
func (v *Filesystems) destroy(f *btrfs.FS, path string) error {
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if err := v.limits.lift(f, id); err != nil {
		return err
	}
	return f.Destroy(id)
}

// clear removes a temporary, if there is one.
func (v *Filesystems) clear(f *btrfs.FS, name string) error {
	if !v.has(name) {
		return nil
	}
	return v.destroy(f, v.Place(name))
}
