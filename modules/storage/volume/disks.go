package volume

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/modules/storage/bytesize"
)

// nocow (FS_NOCOW_FL) makes btrfs write a file in place: a disk's blocks are
// written over and over, and its allocated space must be enough for that.
const nocow = 0x00800000

// Disks are the virtual disks of a pool, which must be mounted.
type Disks struct{ shelf }

// NewDisks returns those of a pool. Prepare comes before any change.
func NewDisks(p Pool) *Disks { return &Disks{newShelf(p, "vdisk", "vdisks", vdiskLabel)} }

// Size is the size of a disk, which is that of its file.
func (d *Disks) Size(name string) (uint64, error) {
	info, err := os.Lstat(d.Place(name))
	if err != nil {
		return 0, btrfs.Wrap(err, "cannot find vdisk %s", name)
	}
	return uint64(info.Size()), nil
}

// Create makes a disk of that size with all its space allocated. It
// appears under its name when it is whole.
func (d *Disks) Create(name string, size uint64) (err error) {
	temporary := d.Place(newPrefix + name)
	if err := d.clear(newPrefix + name); err != nil {
		return err
	}
	if err := d.step("note vdisk"); err != nil {
		return err
	}
	if err := d.index.add(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = withUndo(err, d.clear(newPrefix+name))
			err = withUndo(err, d.index.remove(name))
		}
	}()
	if err := d.step("allocate vdisk"); err != nil {
		return err
	}
	if err := allocate(temporary, size); err != nil {
		return err
	}
	if err := d.step("label vdisk"); err != nil {
		return err
	}
	if err := setLabel(temporary, vdiskLabel, Label{Name: name, Size: size}); err != nil {
		return err
	}
	if err := d.step("name vdisk"); err != nil {
		return err
	}
	return rename(temporary, d.Place(name))
}

// allocate makes a file of size bytes, none of which can run out later.
func allocate(path string, size uint64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return btrfs.Wrap(err, "cannot make vdisk %s", path)
	}
	defer file.Close()
	// The flag counts only on an empty file.
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, nocow); err != nil {
		return btrfs.Wrap(err, "cannot make vdisk %s write in place", path)
	}
	for {
		err = unix.Fallocate(int(file.Fd()), 0, 0, int64(size))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return btrfs.Wrap(err, "cannot allocate %s for vdisk %s", bytesize.Format(size), path)
	}
	return btrfs.Wrap(file.Sync(), "cannot sync vdisk %s", path)
}

// Remove removes the disk of that name.
func (d *Disks) Remove(name string) error {
	if err := d.step("remove vdisk"); err != nil {
		return err
	}
	if err := os.Remove(d.Place(name)); err != nil {
		return btrfs.Wrap(err, "cannot remove vdisk %s", name)
	}
	if err := d.step("forget vdisk"); err != nil {
		return err
	}
	return d.index.remove(name)
}

// clear removes a temporary, if there is one.
func (d *Disks) clear(name string) error {
	if !d.has(name) {
		return nil
	}
	path := d.Place(name)
	return btrfs.Wrap(os.Remove(path), "cannot clear away %s", path)
}
