package spec

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// maxFile is the largest /etc/passwd or /etc/group of an image that is read.
const maxFile = 1 << 20

// openInRoot finds a path of a container as its processes would: links of any
// kind end inside root. It opens nothing yet (O_PATH), so that a device or a
// pipe of an image does nothing to the node.
func openInRoot(root, name string, resolve uint64) (*os.File, error) {
	dir, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open the container's root")
	}
	defer dir.Close()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), name, how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), name), nil
		case unix.EINTR, unix.EAGAIN: // EAGAIN: something was renamed meanwhile
		default:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// readInRoot reads a small plain file of an image; nil when there is none.
func readInRoot(root, name string) ([]byte, error) {
	found, err := openInRoot(root, name, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil, node.Errorf(node.Invalid, "cannot read %s of the image: %w", name, err)
	case err != nil:
		return nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, errors.Wrapf(err, "cannot look at %s of the image", name)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, node.Errorf(node.Invalid, "cannot read %s of the image: it is %s of %d bytes, must be a plain file of at most %d", name, info.Mode(), info.Size(), maxFile)
	}
	// Without waiting: another container with the same volume may hold a lease on the file.
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", found.Fd()), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EAGAIN) {
		return nil, node.Errorf(node.Transient, "cannot read %s of the image: another container has a lease on it", name)
	}
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open %s of the image", name)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = node.Errorf(node.Invalid, "cannot read %s of the image: it grew over %d bytes", name, maxFile)
	}
	return append([]byte{}, content...), errors.Wrapf(err, "cannot read %s of the image", name)
}

// checkCwd refuses a working folder that is, or that a link of the image leads
// to, where the kernel fills the tree: there the runtime's own open files are
// found while it starts a container. One that is missing is fine: it is made.
func checkCwd(root, cwd string) error {
	refuse := func(why string) error {
		return node.Errorf(node.Invalid, "cannot use the image's working folder %.80q: %s", cwd, why)
	}
	if reserved(cwd) {
		return refuse("must not be in /proc, /sys or /dev")
	}
	found, err := openInRoot(root, cwd, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.ELOOP) {
		found, err = openInRoot(root, cwd, 0)
	}
	if err != nil {
		return refuse(err.Error())
	}
	defer found.Close()
	if info, err := found.Stat(); err != nil || !info.IsDir() {
		return refuse("must be a folder")
	}
	place, err := placeInRoot(root, found)
	if err != nil {
		return err
	}
	if reserved(place) {
		return refuse("it leads to " + place + ", must not be in /proc, /sys or /dev")
	}
	return nil
}

// placeInRoot is the path, without links, of a file that was found in root.
func placeInRoot(root string, found *os.File) (string, error) {
	top, err := openInRoot(root, "/", 0)
	if err != nil {
		return "", err
	}
	defer top.Close()
	var paths [2]string
	for i, f := range []*os.File{top, found} {
		if paths[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
			return "", errors.Wrap(err, "cannot tell where a folder of the image is")
		}
	}
	rel, err := filepath.Rel(paths[0], paths[1])
	return filepath.Join("/", rel), errors.Wrap(err, "cannot tell where a folder of the image is")
}

// reserved reports whether the kernel fills that place in a container.
func reserved(place string) bool {
	for _, top := range []string{"/proc", "/sys", "/dev"} {
		if place == top || strings.HasPrefix(place, top+"/") {
			return true
		}
	}
	return false
}
