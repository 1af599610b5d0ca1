package storage

import (
	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// ResizeFilesystem sets its limit. The label goes first, as the truth that the
// quota follows after a crash too.
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
	if err := p.resize(f, l, size); err != nil {
		return none, err
	}
	s.m.changed.fire()
	return p.filesystem(f, label{Name: name, Size: size})
}

// resize gives the file system of that label another size, if that fits it and
// the pool.
func (p *pool) resize(f *btrfs.FS, l label, size uint64) error {
	path := p.place(filesystems(), l.Name)
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if size > l.Size {
		status, err := p.status()
		if err != nil {
			return err
		}
		if free := subSizes(status.Offered, status.Reserved); size-l.Size > free {
			return node.Errorf(node.NoSpace, "cannot resize filesystem %s from %s to %s: free are %s on pool %s", l.Name, FormatSize(l.Size), FormatSize(size), FormatSize(free), p.name)
		}
	}
	if size < l.Size {
		used, err := p.used(f, id)
		if err != nil {
			return err
		}
		if used > size {
			return node.Errorf(node.Busy, "cannot resize filesystem %s from %s to %s: it holds %s", l.Name, FormatSize(l.Size), FormatSize(size), FormatSize(used))
		}
	}
	if err := setLabel(path, filesystemLabel, label{Name: l.Name, Size: size}); err != nil {
		return err
	}
	return p.limit(f, id, size)
}
