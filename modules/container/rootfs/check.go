package rootfs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Check returns which part of a container isn't as it was made, empty when all are.
// NotExist when there is none. An error says nothing about the container.
func (s *Store) Check(id string) (drift string, err error) {
	if err := validID(id); err != nil {
		return "", err
	}
	if _, err := os.Lstat(s.folders.of(id)); os.IsNotExist(err) {
		return "", node.Errorf(node.NotExist, "cannot check container %s: there is none", id)
	}
	return s.check(id)
}

// CheckAll is Check of all containers.
func (s *Store) CheckAll() (map[string]string, error) {
	ids, err := s.List()
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(ids))
	for _, id := range ids {
		if all[id], err = s.check(id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// check is Check of a container that exists; it waits for a Make or Remove of it.
func (s *Store) check(id string) (string, error) {
	defer s.locks.lock(id)()
	was, err := s.records.read(s.folders.of(id))
	if err != nil {
		return "", err
	}
	return drift(s.folders.of(id), was, s.spaces.has(id)), nil
}

// drift names a part of a record that isn't so any more. mounted is whether the mount
// namespace with the root is kept.
func drift(folder string, was *record, mounted bool) string {
	if was == nil || was.Root == nil {
		return "it is only half made"
	}
	there, err := pinned(folder)
	if err != nil {
		return err.Error()
	}
	if there != was.Namespaces {
		return "its namespaces are other ones now"
	}
	if replaced(was.Root.Layer, was.Root.LayerIdentity) || replaced(filepath.Join(was.Root.Layer, upperName), was.Root.Upper) {
		return "its writable layer, at " + was.Root.Layer + ", is gone"
	}
	for _, b := range was.Root.Bound {
		if b.Identity != (identity{}) && replaced(b.Source, b.Identity) {
			return fmt.Sprintf("%s, which it has at %s, is gone or another one now", b.Source, b.Target)
		}
	}
	if was.Root.HandedOver {
		return ""
	}
	if !mounted {
		return "its root file system isn't mounted any more"
	}
	return ""
}

// replaced is whether a folder is gone, or another one by now. While the folder
// that it was in can't be seen either, a file system is away from its place: its
// mounts in containers go on, and it comes back.
func replaced(path string, was identity) bool {
	at, err := identify(path)
	if err == nil {
		return at != was
	}
	if !errors.Is(err, unix.ENOENT) {
		return false
	}
	_, err = os.Lstat(filepath.Dir(path))
	return err == nil
}
