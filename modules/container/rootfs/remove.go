package rootfs

import (
	"context"
	stderrors "errors"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// HandOver lets go of the root file system of a container that was created and not started yet: it has
// its own copy of all mounts by then. Make mounts it again once the container's
// processes are gone. NotExist when nothing whole is there.
func (s *Store) HandOver(_ context.Context, id string) error {
	if err := validID(id); err != nil {
		return err
	}
	defer s.locks.lock(id)()
	if err := s.markHandedOver(id); err != nil {
		return err
	}
	s.reached("handing over")
	return s.spaces.letGo(id)
}

// LetGo is HandOver of a container that can't be created now: the root goes even when that
// can't be recorded, since no container has it.
func (s *Store) LetGo(id string) error {
	if err := validID(id); err != nil {
		return err
	}
	defer s.locks.lock(id)()
	err := s.markHandedOver(id)
	if node.KindOf(err) == node.NotExist {
		err = nil
	}
	return stderrors.Join(err, s.spaces.letGo(id))
}

// markHandedOver comes before letting go: while the mounts exist the record does no harm.
func (s *Store) markHandedOver(id string) error {
	was, err := s.records.read(s.folders.of(id))
	if err != nil {
		return err
	}
	if was == nil || was.Root == nil {
		return node.Errorf(node.NotExist, "cannot hand over the root of container %s: it isn't made", id)
	}
	if was.Root.HandedOver {
		return nil
	}
	root, now := *was.Root, *was
	root.HandedOver, now.Root = true, &root
	return s.records.write(s.folders.of(id), &now)
}

// Remove unmounts and removes all of a container but its layer and volumes:
// first all mounts, then, once none is left, the folders, each of which must
// be empty. It doesn't look into anything that a container can write. A missing
// container is no error; its processes keep their mounts.
func (s *Store) Remove(_ context.Context, id string) error {
	if err := validID(id); err != nil {
		return err
	}
	defer s.locks.lock(id)()
	return s.clear(id)
}

// clear is Remove without its lock.
func (s *Store) clear(id string) error {
	folder := s.folders.of(id)
	if info, err := os.Lstat(folder); os.IsNotExist(err) {
		s.records.forget(folder)
		return nil
	} else if err != nil || !info.IsDir() {
		return node.Errorf(node.Refused, "cannot remove container %s: %s isn't a folder", id, folder)
	}
	if err := s.spaces.letGo(id); err != nil {
		return failed("remove container", id, err)
	}
	s.reached("let go")
	for _, name := range []string{netName, userName} {
		if err := unmount(filepath.Join(folder, name)); err != nil {
			return failed("remove container", id, err)
		}
		s.reached("unmounted " + name)
	}
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	if left := mounted.Within(folder).Paths(); len(left) > 0 {
		return node.Errorf(node.Busy, "cannot remove container %s: %.256q is still mounted", id, left)
	}
	return s.removeFolders(id, folder)
}

// removeFolders removes the files and folders of Make, name by name: nothing else,
// and a folder only when it is empty.
func (s *Store) removeFolders(id, folder string) error {
	layers, err := os.ReadDir(filepath.Join(folder, layersName))
	if err != nil && !os.IsNotExist(err) {
		return failed("remove container", id, err)
	}
	gone := []string{rootName}
	for _, l := range layers {
		gone = append(gone, filepath.Join(layersName, l.Name()))
	}
	if err := removeFiles(folder); err != nil {
		return err
	}
	s.reached("removed files")
	s.records.forget(folder)
	gone = append(gone, layersName, netName, userName, recordName+".new", recordName, "")
	for _, name := range gone {
		path := filepath.Join(folder, name)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			if errors.Is(err, unix.ENOTEMPTY) {
				err = node.Errorf(node.Refused, "%s holds what isn't croft's: %w", path, err)
			}
			return failed("remove container", id, err)
		}
	}
	return nil
}

// removeFiles removes the content of a container's files.
func removeFiles(folder string) error {
	dir := filepath.Join(folder, filesName)
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if err == nil {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	return failed("remove", dir, err)
}

// TakeDown removes all of all containers but their layers and volumes, and the
// mount of the store's folder. None may run. Unlike Open it
// needs neither walkable folders nor the ranges.
func TakeDown(ctx context.Context, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	f, err := findFolders(c.RunDir)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return errors.Wrap(err, "cannot find the folder of containers")
	}
	s := newStore(c.Log, f)
	ids, err := s.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.Remove(ctx, id); err != nil {
			return err
		}
	}
	return unmount(string(f))
}
