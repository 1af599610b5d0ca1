package storage

import (
	stderrors "errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// createSubvolume makes a file system of that label. It appears under its name
// when it has its limit and its label; before that, a crash leaves a temporary
// that the next Open clears away.
func (p *pool) createSubvolume(f *btrfs.FS, l label) (err error) {
	k, name := filesystems(), l.Name
	temporary := p.place(k, newPrefix+name)
	if err := p.clearIfThere(f, k, newPrefix+name); err != nil {
		return err
	}
	if err := p.at("note filesystem"); err != nil {
		return err
	}
	lost := p.index.has(k, name)
	if err := p.index.add(k, name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = withUndo(err, p.clearIfThere(f, k, newPrefix+name))
			err = withUndo(err, p.index.remove(k, name))
		}
	}()
	if err := p.at("create subvolume"); err != nil {
		return err
	}
	if err := btrfs.CreateSubvolume(p.folder(k), newPrefix+name); err != nil {
		return err
	}
	if err := p.finish(f, temporary, l); err != nil {
		return err
	}
	if err := p.at("name subvolume"); err != nil {
		return err
	}
	if lost {
		p.log.Error().Str("pool", p.name).Str("name", name).Msg("a filesystem was removed by somebody else: it is made anew, empty, and what was in it is lost")
	}
	return rename(temporary, p.place(k, name))
}

// finish limits and labels a new subvolume.
func (p *pool) finish(f *btrfs.FS, path string, l label) error {
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if err := p.at("limit subvolume"); err != nil {
		return err
	}
	if err := p.limit(f, id, l.Size); err != nil {
		return err
	}
	if err := p.at("label subvolume"); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o755); err != nil {
		return btrfs.Wrap(err, "cannot set the mode of %s", path)
	}
	return setLabel(path, filesystemLabel, l)
}

// removeSubvolume destroys the file system of that name. It loses its name
// first, so that half of it is never seen.
func (p *pool) removeSubvolume(f *btrfs.FS, name string) error {
	k := filesystems()
	if err := p.clearIfThere(f, k, gonePrefix+name); err != nil {
		return err
	}
	if err := p.at("unname subvolume"); err != nil {
		return err
	}
	gone := p.place(k, gonePrefix+name)
	if err := rename(p.place(k, name), gone); err != nil {
		return err
	}
	if err := p.at("destroy subvolume"); err != nil {
		return err
	}
	if err := p.destroy(f, gone); err != nil {
		return err
	}
	if err := p.at("forget filesystem"); err != nil {
		return err
	}
	return p.index.remove(k, name)
}

// destroy removes the subvolume at path and all in it.
func (p *pool) destroy(f *btrfs.FS, path string) error {
	id, err := btrfs.SubvolumeID(path)
	if err != nil {
		return err
	}
	if err := p.unlimit(f, id); err != nil {
		return err
	}
	return f.Destroy(id)
}

// clearIfThere removes a temporary, if there is one.
func (p *pool) clearIfThere(f *btrfs.FS, k kind, name string) error {
	if _, err := os.Lstat(p.place(k, name)); stderrors.Is(err, os.ErrNotExist) {
		return nil
	}
	return p.clear(f, k, name)
}

// rename gives a thing its name, which nothing else may have.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	return btrfs.Wrap(err, "cannot rename %s to %s", from, to)
}

// withUndo keeps err and its kind, and says that the undoing failed too.
func withUndo(err, undo error) error {
	if undo == nil {
		return err
	}
	return node.Errorf(node.KindOf(err), "%w; and cannot undo it: %v", err, undo)
}
