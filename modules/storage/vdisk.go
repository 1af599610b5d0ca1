package storage

import (
	stderrors "errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
)

// nocow (FS_NOCOW_FL) makes btrfs write a file in place: a disk's blocks are
// written over and over, and its allocated space must be enough for that.
const nocow = 0x00800000

// createDisk makes a disk of that size with all its space allocated. It
// appears under its name when it is whole.
func (p *pool) createDisk(f *btrfs.FS, name string, size uint64) (err error) {
	k := vdisks()
	temporary := p.place(k, newPrefix+name)
	if err := p.clearIfThere(f, k, newPrefix+name); err != nil {
		return err
	}
	if err := p.at("note vdisk"); err != nil {
		return err
	}
	if err := p.index.add(k, name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = withUndo(err, p.clearIfThere(f, k, newPrefix+name))
			err = withUndo(err, p.index.remove(k, name))
		}
	}()
	if err := p.at("allocate vdisk"); err != nil {
		return err
	}
	if err := allocate(temporary, size); err != nil {
		return err
	}
	if err := p.at("label vdisk"); err != nil {
		return err
	}
	if err := setLabel(temporary, vdiskLabel, label{Name: name, Size: size}); err != nil {
		return err
	}
	if err := p.at("name vdisk"); err != nil {
		return err
	}
	return rename(temporary, p.place(k, name))
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
		if !stderrors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return btrfs.Wrap(err, "cannot allocate %s for vdisk %s", FormatSize(size), path)
	}
	return btrfs.Wrap(file.Sync(), "cannot sync vdisk %s", path)
}

// removeDisk removes the disk of that name.
func (p *pool) removeDisk(name string) error {
	k := vdisks()
	if err := p.at("remove vdisk"); err != nil {
		return err
	}
	if err := os.Remove(p.place(k, name)); err != nil {
		return btrfs.Wrap(err, "cannot remove vdisk %s", name)
	}
	if err := p.at("forget vdisk"); err != nil {
		return err
	}
	return p.index.remove(k, name)
}
