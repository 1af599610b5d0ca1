package storage

import (
	"os"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// ResizeFilesystem sets its limit, its data stays. It is on the disk when it
// returns.
func (s service) ResizeFilesystem(name string, size uint64) (node.Filesystem, error) {
	none := node.Filesystem{}
	if err := checkName("filesystem", name); err != nil {
		return none, err
	}
	if size < minSize {
		return none, node.Errorf(node.Invalid, "cannot resize filesystem %s: size is %d bytes, must be at least %d", name, size, minSize)
	}
	done, err := s.m.begin()
	if err != nil {
		return none, err
	}
	defer done()
	p, l, err := s.m.find(filesystems(), name)
	if err != nil {
		return none, err
	}
	f, err := p.open()
	if err != nil {
		return none, err
	}
	defer f.Close()
	switch {
	case size > l.Size:
		err = p.grow(f, l, size)
	case size < l.Size:
		err = p.shrink(f, l, size)
	}
	if err != nil {
		return none, err
	}
	s.m.changed.fire()
	l.Size = size
	return p.filesystem(f, l)
}

// grow raises the limit before the label: a full file system can't even be
// labelled. A crash in between leaves the old label, which the next Open holds to.
func (p *pool) grow(f *btrfs.FS, l label, size uint64) error {
	status, err := p.status()
	if err != nil {
		return err
	}
	if free := subSizes(status.Offered, status.Reserved); size-l.Size > free {
		return node.Errorf(node.NoSpace, "cannot resize filesystem %s from %s to %s: needs %s more, free are %s on pool %s",
			l.Name, FormatSize(l.Size), FormatSize(size), FormatSize(size-l.Size), FormatSize(free), p.name)
	}
	id, err := btrfs.SubvolumeID(p.place(filesystems(), l.Name))
	if err != nil {
		return err
	}
	if err := p.at("raise limit"); err != nil {
		return err
	}
	if err := p.limit(f, id, size); err != nil {
		return err
	}
	if err := p.relabel(l.sized(size)); err != nil {
		return withUndo(err, p.limit(f, id, l.Size))
	}
	return nil
}

// shrink lowers the label before the limit: a crash in between leaves the new
// label, which the next Open holds to.
func (p *pool) shrink(f *btrfs.FS, l label, size uint64) error {
	id, err := btrfs.SubvolumeID(p.place(filesystems(), l.Name))
	if err != nil {
		return err
	}
	if err := p.fits(f, id, l, size); err != nil {
		return err
	}
	if err := p.relabel(l.sized(size)); err != nil {
		return err
	}
	err = p.at("lower limit")
	if err == nil {
		err = p.limit(f, id, size)
	}
	if err != nil {
		return withUndo(err, p.relabel(l))
	}
	return nil
}

// fits says whether what is in the file system fits size. What was written or
// removed lately counts from the next commit on, so it makes one.
func (p *pool) fits(f *btrfs.FS, id uint64, l label, size uint64) error {
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
		return node.Errorf(node.Transient, "cannot resize filesystem %s from %s to %s: pool %s is counting what is on it",
			l.Name, FormatSize(l.Size), FormatSize(size), p.name)
	}
	used, err := p.used(f, id)
	if err != nil {
		return err
	}
	if used > size {
		return node.Errorf(node.Busy, "cannot resize filesystem %s from %s to %s: it holds %s",
			l.Name, FormatSize(l.Size), FormatSize(size), FormatSize(used))
	}
	return nil
}

// sized is l with another size.
func (l label) sized(size uint64) label {
	l.Size = size
	return l
}

// relabel writes a file system's label anew, so that a power cut doesn't take
// it back.
func (p *pool) relabel(l label) error {
	if err := p.at("relabel filesystem"); err != nil {
		return err
	}
	path := p.place(filesystems(), l.Name)
	if err := setLabel(path, filesystemLabel, l); err != nil {
		return err
	}
	folder, err := os.Open(path)
	if err != nil {
		return btrfs.Wrap(err, "cannot sync the label of %s", path)
	}
	defer folder.Close()
	return btrfs.Wrap(folder.Sync(), "cannot sync the label of %s", path)
}
