package storage

import (
	stderrors "errors"
	"os"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	path   string
	fsType string
	source string
}

// readMounts reads what is mounted, in the order it was.
func readMounts() ([]mountPoint, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read what is mounted")
	}
	var mounts []mountPoint
	for line := range strings.Lines(string(raw)) { // of any length: paths may be
		if m, ok := parseMount(line); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts, nil
}

// parseMount reads a line of mountinfo: "36 35 98:0 /root /mnt opts opt… - type source opts".
func parseMount(line string) (mountPoint, bool) {
	left, right, found := strings.Cut(line, " - ")
	a, b := strings.Fields(left), strings.Fields(right)
	if !found || len(a) < 6 || len(b) < 2 {
		return mountPoint{}, false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	return mountPoint{path: unescape.Replace(a[4]), fsType: b[0], source: unescape.Replace(b[1])}, true
}

// mountedAt is the last thing mounted on path.
func mountedAt(path string) (m mountPoint, found bool, err error) {
	mounts, err := readMounts()
	for _, candidate := range mounts {
		if candidate.path == path {
			m, found = candidate, true
		}
	}
	return m, found, err
}

// mountPool mounts a btrfs device. What lies on it was written by containers
// whose root is that of the node on disk: neither devices nor set-id files work.
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
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		path := mounts[i].path
		if path != dir && !strings.HasPrefix(path, dir+"/") {
			continue
		}
		if err := unix.Unmount(path, 0); err != nil && !stderrors.Is(err, unix.EINVAL) {
			return btrfs.Wrap(err, "cannot unmount %s", path)
		}
	}
	return nil
}
