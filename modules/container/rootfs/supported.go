package rootfs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Supported says why this kernel can't id-map mounts of the file system at dir,
// or can't take them as layers, and the requirements; nil when it can. It finds out
// by trying, in a private mount namespace.
func Supported(dir string) error {
	return inNamespaces(rangeOf(0), func(pid int) error {
		userns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
		if err != nil {
			return failed("open", "a user namespace", err)
		}
		defer userns.Close()
		return onThread(func() error { return try(dir, userns) })
	})
}

// Namespaces says why this kernel can't make the user namespace of a container; nil when it can.
func Namespaces() error { return inNamespaces(rangeOf(0), func(int) error { return nil }) }

func try(dir string, userns *os.File) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return failed("make", "a mount namespace", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return failed("cut off", "a mount namespace", err)
	}
	if err := unix.Mount("croft", "/proc", "tmpfs", 0, "mode=700"); err != nil {
		return failed("mount", "a place to try", err)
	}
	for _, name := range []string{"/proc/layer", "/proc/empty", "/proc/root"} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return failed("make", "a place to try", err)
		}
	}
	if err := mountTree(dir, "/proc/layer", unix.MOUNT_ATTR_RDONLY, userns); err != nil {
		return err
	}
	err := unix.Mount("croft", "/proc/root", "overlay", unix.MS_RDONLY, "lowerdir=/proc/layer:/proc/empty")
	if err != nil {
		return node.Errorf(node.Refused, "cannot use %s as a layer of a container: %w (an overlay of id-mapped layers needs Linux 5.19 "+
			"and a file system such as btrfs, ext4 or xfs)", dir, err)
	}
	return nil
}
