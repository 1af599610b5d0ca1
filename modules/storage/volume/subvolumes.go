package volume

import (
	"os"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/btrfs"
)

// subvolumes are those of one kind on a pool, each with a quota of its own. The pool must
// be mounted, and is open as f where a method takes one.
type subvolumes struct {
	shelf
	limits *limits
	// mode is that of a subvolume's root.
	mode os.FileMode
	// room is the limit in bytes of one of that size.
	room func(size uint64) uint64
	// fill makes the content of a new one at path; nil for none.
	fill func(path string, l Label) error
	says messages
	log  zerolog.Logger
}

// messages are the log messages about a kind.
type messages struct {
	// lost is that one had to be made anew, missing that some of the index aren't on the pool.
	lost, missing string
}

// Quota is the kind of quota in force; empty before Prepare.
func (v *subvolumes) Quota() btrfs.Quota { return v.limits.kind() }

// Room is how many bytes of the pool are promised to one of that size.
func (v *subvolumes) Room(size uint64) uint64 { return v.room(size) }

// Used is how many bytes are in the one of that name, and in subvolumes nested in it.
func (v *subvolumes) Used(f *btrfs.FS, name string) (uint64, error) {
	id, err := btrfs.SubvolumeID(v.Place(name))
	if err != nil {
		return 0, err
	}
	return v.limits.used(f, id)
}

// Create makes one of that label. It appears under its name when it has its limit, its
// content and its label; before that, a crash leaves a temporary that the next Open
// clears away.
func (v *subvolumes) Create(f *btrfs.FS, l Label) (err error) {
	name := l.Name
	temporary := v.Place(newPrefix + name)
	if err := v.clear(f, newPrefix+name); err != nil {
		return err
	}
	if err := v.step("note " + v.what); err != nil {
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
		v.log.Error().Str("pool", v.pool).Str("name", name).Msg(v.says.lost)
	}
	return rename(temporary, v.Place(name))
}

// finish limits, fills and labels a new subvolume.
func (v *subvolumes) finish(f *btrfs.FS, path string, l Label) error {
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if err := v.step("limit subvolume"); err != nil {
		return err
	}
	if err := v.limits.set(f, id, v.room(l.Size)); err != nil {
		return err
	}
	if v.fill != nil {
		if err := v.fill(path, l); err != nil {
			return err
		}
	}
	if err := v.step("label subvolume"); err != nil {
		return err
	}
	if err := os.Chmod(path, v.mode); err != nil {
		return btrfs.Wrap(err, "cannot set the mode of %s", path)
	}
	return setLabel(path, v.attribute, l)
}

// Remove destroys the one of that name. It loses its name first, so that half of it is
// never seen.
func (v *subvolumes) Remove(f *btrfs.FS, name string) error {
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
	if err := v.step("forget " + v.what); err != nil {
		return err
	}
	return v.index.remove(name)
}

// destroy removes the subvolume at path and all in it.
func (v *subvolumes) destroy(f *btrfs.FS, path string) error {
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
func (v *subvolumes) clear(f *btrfs.FS, name string) error {
	if !v.has(name) {
		return nil
	}
	return v.destroy(f, v.Place(name))
}
