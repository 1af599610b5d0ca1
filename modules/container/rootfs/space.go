package rootfs

import (
	stderrors "errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// mountsName is a link to the mount namespace with a container's root, which this process has open.
// A bind mount would keep it longer, but the kernel refuses that at random (EINVAL) where the node itself
// isn't in the machine's first mount namespace: from Linux 6.18 on a newer namespace may have
// a lower number, and looks older than the one that is to hold it.
const mountsName = "mnt"

// space is a mount namespace, open: it is there at least until that is closed.
type space struct {
	file *os.File
}

// newSpace makes a mount namespace that is a copy of the node's. What is mounted in
// either from then on isn't in the other.
func newSpace() (s space, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return node.Errorf(node.Transient, "cannot make a mount namespace: %w", err) // ENOSPC: the machine has too many
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return errors.Wrap(err, "cannot make a mount namespace private")
		}
		s.file, err = os.Open("/proc/thread-self/ns/mnt")
		return errors.Wrap(err, "cannot open a mount namespace")
	})
	return s, err
}

func (s space) close() { s.file.Close() }

// another is the same one, to be closed by itself.
func (s space) another() (space, error) {
	fd, err := unix.FcntlInt(s.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return space{}, errors.Wrap(err, "cannot open a mount namespace once more")
	}
	return space{os.NewFile(uintptr(fd), s.file.Name())}, nil
}

// do runs fn on a thread in it, which ends with fn, see onThread. fn must do its work itself:
// goroutines that it starts are elsewhere.
func (s space) do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNS); err != nil {
			return errors.Wrap(err, "cannot enter a mount namespace")
		}
		return fn()
	})
}

// keep has the store keep the mount namespace of a container, and links it in the container's folder.
func (s *Store) keep(id string, in space) error {
	link := MountNS(s.folder(id))
	if err := os.Symlink("/proc/"+strconv.Itoa(os.Getpid())+"/fd/"+strconv.Itoa(int(in.file.Fd())), link); err != nil {
		return failed("link", link, err)
	}
	is, err := in.file.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(link); err != nil || !os.SameFile(is, there) {
			err = node.Errorf(node.Refused, "cannot keep the mount namespace of container %s: /proc isn't that of the node's processes (%v)", id, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.spaces == nil {
		err = node.Errorf(node.Transient, "cannot keep the mount namespace of container %s: the store is closed", id)
	}
	if err != nil {
		_ = os.Remove(link)
		return err
	}
	s.spaces[id] = in
	return nil
}

// kept is the mount namespace with a container's root, to be closed. It isn't found when none is kept.
func (s *Store) kept(id string) (in space, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in, found = s.spaces[id]; !found {
		return space{}, false, nil
	}
	in, err = in.another()
	return in, err == nil, err
}

// letGo lets go of the mount namespace with a container's root. An earlier croft has mounted
// that, and its layers, on the node itself.
func (s *Store) letGo(id string) error {
	// The link goes first: what it names may be another container's once this one is closed.
	err := s.unlink(id)
	s.mu.Lock()
	in, found := s.spaces[id]
	delete(s.spaces, id)
	s.mu.Unlock()
	if found {
		in.close() // this may take as long as the disk that the container's layer is on
	}
	for _, name := range []string{rootName, layersName} {
		err = stderrors.Join(err, unmount(filepath.Join(s.folder(id), name)))
	}
	return err
}

// unlink removes the link to a container's mount namespace. An earlier croft has mounted one there.
func (s *Store) unlink(id string) error {
	link := MountNS(s.folder(id))
	if err := unmount(link); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return failed("remove", link, err)
	}
	return nil
}

// Within runs fn where a container's root is mounted, with the path of that, see Made. fn must do
// its work itself: goroutines that it starts are elsewhere. Transient when the root isn't mounted:
// it isn't made, or was let go.
func (s *Store) Within(id string, fn func(root string) error) error {
	if err := validID(id); err != nil {
		return err
	}
	in, found, err := s.kept(id)
	if err != nil {
		return err
	}
	if !found {
		return node.Errorf(node.Transient, "cannot look into the root of container %s: it isn't mounted", id)
	}
	defer in.close()
	return in.do(func() error { return fn(filepath.Join(s.folder(id), rootName)) })
}

// Close lets go of all that is kept, and nothing is kept from then on.
func (s *Store) Close() {
	s.mu.Lock()
	all := s.spaces
	s.spaces = nil
	s.mu.Unlock()
	for id, in := range all {
		_ = s.unlink(id)
		in.close()
	}
}
