package volume

import (
	"os"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
)

// MinSize is the least size in bytes of a file system: btrfs charges 16 KiB to
// an empty one.
const MinSize = bytesize.MiB

// Resize sets the size of the file system with that label; its data stays. Busy when it
// holds more. The pool must have room to grow.
func (v *Filesystems) Resize(f *btrfs.FS, l Label, size uint64) error { return v.resize(f, l, size) }

func (v *subvolumes) resize(f *btrfs.FS, l Label, size uint64) error {
	switch {
	case size > l.Size:
		return v.grow(f, l, size)
	case size < l.Size:
		return v.shrink(f, l, size)
	}
	return nil
}

// grow raises the limit before the label: a full one can't even be
// labelled. A crash in between leaves the old label, which the next Open holds to.
func (v *subvolumes) grow(f *btrfs.FS, l Label, size uint64) error {
	id, err := btrfs.SubvolumeID(v.Place(l.Name))
	if err != nil {
		return err
	}
	if err := v.step("raise limit"); err != nil {
		return err
	}
	if err := v.limits.set(f, id, v.room(size)); err != nil {
		return err
	}
	if err := v.relabel(l.sized(size)); err != nil {
		return withUndo(err, v.limits.set(f, id, v.room(l.Size)))
	}
	return nil
}

// shrink lowers the label before the limit: a crash in between leaves the new
// label, which the next Open holds to.
func (v *subvolumes) shrink(f *btrfs.FS, l Label, size uint64) error {
	id, err := btrfs.SubvolumeID(v.Place(l.Name))
	if err != nil {
		return err
	}
	if err := v.fits(f, id, l, size); err != nil {
		return err
	}
	if err := v.relabel(l.sized(size)); err != nil {
		return err
	}
	err = v.step("lower limit")
	if err == nil {
		err = v.limits.set(f, id, size)
	}
	if err != nil {
		return withUndo(err, v.relabel(l))
	}
	return nil
}

// fits refuses a size that is smaller than the content. Recent writes and removals
// count from the next commit on, so it makes one.
func (v *subvolumes) fits(f *btrfs.FS, id uint64, l Label, size uint64) error {
	if err := f.Sync(); err != nil {
		return err
	}
	state, err := f.Quota()
	if err != nil {
		return err
	}
	if state.Inconsistent || state.Rescanning {
		if err := f.Rescan(); err != nil {
			return err
		}
		return node.Errorf(node.Transient, "cannot resize %s %s from %s to %s: pool %s is counting its data",
			v.what, l.Name, bytesize.Format(l.Size), bytesize.Format(size), v.pool)
	}
	used, err := v.limits.used(f, id)
	if err != nil {
		return err
	}
	if used > size {
		return node.Errorf(node.Busy, "cannot resize %s %s from %s to %s: it holds %s",
			v.what, l.Name, bytesize.Format(l.Size), bytesize.Format(size), bytesize.Format(used))
	}
	return nil
}

// sized is l with another size.
func (l Label) sized(size uint64) Label {
	l.Size = size
	return l
}

// relabel writes a label anew, so that a power cut doesn't take
// it back.
func (v *subvolumes) relabel(l Label) error {
	if err := v.step("relabel " + v.what); err != nil {
		return err
	}
	path := v.Place(l.Name)
	if err := setLabel(path, v.attribute, l); err != nil {
		return err
	}
	folder, err := os.Open(path)
	if err != nil {
		return btrfs.Wrap(err, "cannot sync the label of %s", path)
	}
	defer folder.Close()
	return btrfs.Wrap(folder.Sync(), "cannot sync the label of %s", path)
}

// Claim writes a label that has a hash now. A full one has no room even
// for that: its limit is raised for the moment. A crash in between leaves the
// raised one, and the next Open holds to the label's size.
func (v *subvolumes) Claim(f *btrfs.FS, l Label) error {
	err := v.relabel(l)
	if node.KindOf(err) != node.NoSpace {
		return err
	}
	id, err := btrfs.SubvolumeID(v.Place(l.Name))
	if err != nil {
		return err
	}
	if err := v.limits.set(f, id, saturate.Add(v.room(l.Size), MinSize)); err != nil {
		return err
	}
	err = v.relabel(l)
	if back := v.limits.set(f, id, v.room(l.Size)); err == nil {
		err = back
	}
	return err
}
