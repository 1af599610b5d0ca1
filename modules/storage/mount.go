package storage

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// mountPool mounts a btrfs device. Its files were written by containers, whose root has
// the node's root's ID on disk: so neither devices nor set-id files work.
func mountPool(device, path string) error {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return errors.Wrap(err, "cannot make a mount point")
	}
	err := unix.Mount(device, path, "btrfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "")
	return btrfs.Wrap(err, "cannot mount %s on %s", device, path)
}

// secure makes a pool that an earlier version has mounted as mountPool does.
func secure(path string) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	return btrfs.Wrap(unix.MountSetattr(unix.AT_FDCWD, path, 0, &attributes), "cannot make the mount of %s nosuid", path)
}

// unmountBelow unmounts all that is mounted on dir or below it, last first.
func unmountBelow(dir string) error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(mounted.Within(dir).Paths()) {
		if err := unix.Unmount(path, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return btrfs.Wrap(err, "cannot unmount %s", path)
		}
	}
	return nil
}

// mountedAt is the mount on a path.
func mountedAt(path string) (mounts.Mount, bool, error) {
	mounted, err := mounts.Read()
	m, found := mounted.At(path)
	return m, found, err
}

// mount is the mount of a pool's file system. Anything else in its place isn't the pool.
type mount struct {
	pool string
	path string
	// source is the path of its disk as the operator wrote it; empty for a loop file.
	source string
	// uuid is the file system's.
	uuid string
	// failed is why the pool couldn't be opened; it stays as it is until the next
	// start.
	failed error
	// tried is when the last remount failed, cause why; guarded by the module's mu.
	tried time.Time
	cause string

	// device is the device it is mounted from, remounted the number of remounts since
	// the start; guarded by mu.
	mu        sync.Mutex
	device    string
	remounted uint64
}

// mountedFrom is the device, and how often the pool was mounted again.
func (m *mount) mountedFrom() (device string, again uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.device, m.remounted
}

func (m *mount) setDevice(device string, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.device = device
	if again {
		m.remounted++
	}
}

// open opens the pool's file system. Transient with the cause when the pool is
// broken, also since a moment ago.
func (m *mount) open() (*btrfs.FS, error) {
	if m.failed != nil {
		return nil, m.broken(m.failed)
	}
	f, err := m.mounted()
	if err != nil {
		return nil, m.broken(err)
	}
	return f, nil
}

// mounted opens the file system at the pool's mount point, if it is the pool. An
// unmounted pool's folder may lie on another btrfs, which isn't ours to write to.
func (m *mount) mounted() (*btrfs.FS, error) {
	f, err := btrfs.Open(m.path)
	if err != nil {
		return nil, err
	}
	uuid, err := f.UUID()
	if err == nil && uuid != m.uuid {
		err = errors.Errorf("another file system (UUID %s) is mounted on %s", uuid, m.path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// health says why the pool can't be written to; nil when it can.
func (m *mount) health() error {
	_, err := m.space()
	return err
}

func (m *mount) space() (btrfs.Space, error) {
	f, err := m.open()
	if err != nil {
		return btrfs.Space{}, err
	}
	defer f.Close()
	space, err := f.Space()
	if err == nil && space.ReadOnly {
		err = m.broken(errors.New("it became read-only after an error; the kernel's log says which"))
	}
	return space, err
}

// broken doesn't wrap its cause: that may be a NotExist, which callers forgive.
func (m *mount) broken(cause error) error {
	return node.Errorf(node.Transient, "pool %s is broken: %v", m.pool, cause)
}

func (m *mount) isMounted() bool {
	f, err := m.mounted()
	if err != nil {
		return false
	}
	f.Close()
	return true
}
