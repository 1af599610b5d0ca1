package rootfs

import (
	stderrors "errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

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

// newSpace makes a mount namespace that is a copy of the node's. Later mounts in it aren't on the node. What
// the node unmounts is unmounted here too, where the node's mounts are shared, as systemd makes them: elsewhere a
// pool's device stays in use until the namespace has ended.
func newSpace() (s space, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return node.Errorf(node.Transient, "cannot make a mount namespace: %w", err) // ENOSPC: the machine has too many
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return errors.Wrap(err, "cannot cut the mounts of a mount namespace off from the node's")
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

// spaces are the mount namespaces of containers that are being created, by ID.
type spaces struct {
	folders folders

	mu   sync.Mutex
	open map[string]space // nil once closed
}

// keep keeps the mount namespace of a container, and links it in the container's folder.
func (s *spaces) keep(id string, in space) error {
	link := MountNS(s.folders.of(id))
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
	if err == nil && s.open == nil {
		err = node.Errorf(node.Transient, "cannot keep the mount namespace of container %s: the store is closed", id)
	}
	if err != nil {
		_ = os.Remove(link)
		return err
	}
	s.open[id] = in
	return nil
}

// kept is the mount namespace with a container's root, to be closed. It isn't found when none is kept.
func (s *spaces) kept(id string) (in space, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in, found = s.open[id]; !found {
		return space{}, false, nil
	}
	in, err = in.another()
	return in, err == nil, err
}

// letGo lets go of the mount namespace with a container's root. An earlier croft has mounted
// that, and its layers, on the node itself.
func (s *spaces) letGo(id string) error {
	// The link is removed first: once the descriptor is closed, its number may become another container's.
	err := s.unlink(id)
	s.mu.Lock()
	in, found := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if found {
		in.close() // this may take as long as the disk that the container's layer is on
	}
	for _, name := range []string{rootName, layersName} {
		err = stderrors.Join(err, unmount(filepath.Join(s.folders.of(id), name)))
	}
	return err
}

// unlink removes the link to a container's mount namespace. An earlier croft has mounted one there.
func (s *spaces) unlink(id string) error {
	link := MountNS(s.folders.of(id))
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
	in, found, err := s.spaces.kept(id)
	if err != nil {
		return err
	}
	if !found {
		return node.Errorf(node.Transient, "cannot look into the root of container %s: it isn't mounted", id)
	}
	defer in.close()
	return in.do(func() error { return fn(filepath.Join(s.folders.of(id), rootName)) })
}

// has reports whether the mount namespace with a container's root is kept.
func (s *spaces) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.open[id]
	return found
}

// close lets go of all, and nothing is kept from then on.
func (s *spaces) close() {
	s.mu.Lock()
	all := s.open
	s.open = nil
	s.mu.Unlock()
	for id, in := range all {
		_ = s.unlink(id)
		in.close()
	}
}

// onThread runs fn on a thread that ends with it: its working folder, umask
// and file system IDs are its own, and nobody gets it afterwards.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end. While it waits here, the next
			// goroutine gets another one.
			err := onThread(fn)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			done <- errors.Wrap(err, "cannot unshare a thread's working folder")
			return
		}
		unix.Umask(0)
		done <- fn()
	}()
	return <-done
}

// asOwner is do on a thread whose file system IDs are the range's first: files that
// fn makes belong to the container's root, in an id-mapped mount too, where the
// node's root is nobody and can't make anything. The thread's capabilities stay.
func (s space) asOwner(r Range, fn func() error) error {
	return s.do(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			return errors.Wrap(err, "cannot read a thread's capabilities")
		}
		if err := unix.Setfsgid(int(r.Base)); err != nil {
			return errors.Wrap(err, "cannot set a thread's group")
		}
		if err := unix.Setfsuid(int(r.Base)); err != nil {
			return errors.Wrap(err, "cannot set a thread's user")
		}
		if err := unix.Capset(&header, &caps[0]); err != nil {
			return errors.Wrap(err, "cannot keep a thread's capabilities")
		}
		return fn()
	})
}
