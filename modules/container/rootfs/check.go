package rootfs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// Check says what of a container isn't as it was made, empty when all is.
// NotExist when there is none. An error says nothing about the container.
func (s *Store) Check(id string) (drift string, err error) {
	if err := validID(id); err != nil {
		return "", err
	}
	if _, err := os.Lstat(s.folder(id)); os.IsNotExist(err) {
		return "", node.Errorf(node.NotExist, "cannot check container %s: there is none", id)
	}
	return s.check(id, nil)
}

// CheckAll is Check of all, with one look at the mounts. Those that are as they
// were made have an empty text.
func (s *Store) CheckAll() (map[string]string, error) {
	ids, err := s.List()
	if err != nil {
		return nil, err
	}
	mounted, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	byID := mounted.ByID()
	all := make(map[string]string, len(ids))
	for _, id := range ids {
		drift, err := s.check(id, byID)
		if err != nil {
			return nil, err
		}
		all[id] = drift
	}
	return all, nil
}

// check waits for a Make or Remove of it. byID is what is mounted. What those have changed
// since it was read would look like drift: then it reads again. Without byID it reads
// them only where it has to look at them: there are many on a node with many.
func (s *Store) check(id string, byID map[uint64]mounts.Mount) (string, error) {
	defer s.lock(id)()
	was, err := readRecord(s.folder(id))
	if err != nil {
		return "", err
	}
	if byID != nil || was != nil && was.Root != nil && was.Root.HandedOver {
		if drift := s.drift(id, was, byID); drift == "" || byID == nil {
			return drift, nil
		}
	}
	mounted, err := mounts.Read()
	if err != nil {
		return "", err
	}
	return s.drift(id, was, mounted.ByID()), nil
}

// drift says what of a record isn't so any more.
func (s *Store) drift(id string, was *record, byID map[uint64]mounts.Mount) string {
	if was == nil || was.Root == nil {
		return "it is only half made"
	}
	there, err := pinned(s.folder(id))
	if err != nil {
		return err.Error()
	}
	if there != was.Namespaces {
		return "its namespaces are other ones now"
	}
	if replaced(was.Root.Layer, was.Root.LayerIdentity) || replaced(filepath.Join(was.Root.Layer, upperName), was.Root.Upper) {
		return "what it writes beside its volumes, at " + was.Root.Layer + ", is gone"
	}
	for _, b := range was.Root.Bound {
		if b.Identity != (identity{}) && replaced(b.Source, b.Identity) {
			return fmt.Sprintf("%s, which it has at %s, is gone or another one now", b.Source, b.Target)
		}
	}
	if was.Root.HandedOver {
		return ""
	}
	return s.mountDrift(id, was.Root, byID)
}

// mountDrift says which mount isn't where and as it was made.
func (s *Store) mountDrift(id string, was *root, byID map[uint64]mounts.Mount) string {
	at := filepath.Join(s.folder(id), rootName)
	covered := map[uint64]bool{}
	for _, m := range byID {
		if parent, ok := byID[m.Parent]; ok && parent.Path == m.Path {
			covered[parent.ID] = true
		}
	}
	if m, ok := byID[was.Mount]; !ok || m.Path != at {
		return "its root file system was unmounted"
	}
	if covered[was.Mount] {
		return "something else is mounted over its root file system"
	}
	for _, b := range was.Bound {
		m, ok := byID[b.Mount]
		switch {
		case !ok:
			return "what it has at " + b.Target + " was unmounted"
		case m.Path != at+b.Path:
			return "the folder of its mount at " + b.Target + " was moved"
		case m.Options != b.Options:
			return "what it has at " + b.Target + " was mounted anew, as " + m.Options
		case covered[b.Mount]:
			return "something else is mounted over what it has at " + b.Target
		}
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
