package rootfs

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// mountsName is the file that keeps the mount namespace with a container's root.
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
			return errors.Wrap(err, "cannot make a mount namespace")
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return errors.Wrap(err, "cannot make a mount namespace private")
		}
		s.file, err = os.Open("/proc/thread-self/ns/mnt")
		return errors.Wrap(err, "cannot open a mount namespace")
	})
	return s, err
}

// openSpace opens the one that a container's folder keeps. NotExist when it keeps none.
func openSpace(folder string) (space, error) {
	file, err := os.Open(filepath.Join(folder, mountsName))
	if err != nil {
		return space{}, failed("open the mount namespace of", folder, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		_ = file.Close()
		return space{}, node.Errorf(node.NotExist, "there is no mount namespace at %s", file.Name())
	}
	return space{file}, nil
}

func (s space) close() { s.file.Close() }

// keep has a container's folder keep it.
func (s space) keep(folder string) error {
	file := filepath.Join(folder, mountsName)
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		return failed("make", file, err)
	}
	err := unix.Mount("/proc/self/fd/"+strconv.Itoa(int(s.file.Fd())), file, "", unix.MS_BIND, "")
	runtime.KeepAlive(s.file)
	return failed("keep a mount namespace at", file, err)
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

// Within runs fn where a container's root is mounted, with the path of that, see Made. fn must do
// its work itself: goroutines that it starts are elsewhere. NotExist when the root isn't mounted:
// it isn't made, or was handed over.
func (s *Store) Within(id string, fn func(root string) error) error {
	if err := validID(id); err != nil {
		return err
	}
	in, err := openSpace(s.folder(id))
	if err != nil {
		return err
	}
	defer in.close()
	return in.do(func() error { return fn(filepath.Join(s.folder(id), rootName)) })
}
