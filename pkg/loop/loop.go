// Package loop attaches files to loop devices. It owns no device: each is made
// to go by itself when nobody has it open any more, so that nothing stays
// behind whatever the agent dies of.
//
// Where the file system of a file can do it, its device reads and writes it directly, past the
// page cache. Else the writes of all gather there, and the next writer waits
// until one sync, or the kernel's limit for dirty pages, has brought
// them to the disk.
package loop

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	control = "/dev/loop-control"
	sysfs   = "/sys/block"
	// blockSize is the least that is read and written at once, in bytes. It is that of
	// btrfs. Direct access asks for one that isn't smaller than the disk's.
	blockSize = 4096
)

// Device is a loop device that is open. It lives until it is neither open nor mounted.
type Device struct {
	file *os.File
}

// Path is the device's, such as /dev/loop3.
func (d *Device) Path() string { return d.file.Name() }

// Close lets go of the device.
func (d *Device) Close() error { return d.file.Close() }

// Attach opens the loop device of image, and attaches one when there is none.
func Attach(ctx context.Context, image string) (*Device, error) {
	image, err := filepath.EvalSymlinks(image)
	if err != nil {
		return nil, node.WithKind(node.NotExist, errors.Wrap(err, "cannot attach image"))
	}
	for {
		d, err := attachOnce(image)
		// Somebody took the free device first, or the one found went away.
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENXIO) {
			return d, err
		}
		if err := ctx.Err(); err != nil {
			return nil, node.WithKind(node.Transient, errors.Wrapf(err, "cannot attach image %s", image))
		}
	}
}

func attachOnce(image string) (*Device, error) {
	path, err := Find(image)
	if err == nil {
		return open(path, image)
	}
	if !errors.Is(err, node.NotExist) {
		return nil, err
	}
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Wrap(err, "cannot attach image")
	}
	defer backing.Close()
	path, err = free()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot attach image %s", image)
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: blockSize}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO // the kernel leaves the latter away where it can't be
	copy(config.Info.File_name[:len(config.Info.File_name)-1], image)
	if err := unix.IoctlLoopConfigure(int(f.Fd()), &config); err != nil {
		f.Close()
		return nil, errors.Wrapf(err, "cannot attach image %s to %s", image, path)
	}
	return &Device{file: f}, nil
}

// open opens a device that was seen with image, and looks again now that it can't go.
func open(path, image string) (*Device, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open the device of image %s", image)
	}
	if Backing(path) != image {
		f.Close()
		return nil, errors.Wrapf(unix.ENXIO, "cannot open the device of image %s", image)
	}
	if !Direct(path) { // an earlier croft has attached it
		// Where it can't be, all stays as it is, which Direct says.
		_ = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_DIRECT_IO, 1)
	}
	return &Device{file: f}, nil
}

// free asks the kernel for an unused device, which it makes when there is none.
func free() (string, error) {
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return "", node.WithKind(node.Refused, errors.Wrap(err, "cannot get a loop device"))
	}
	defer f.Close()
	n, err := unix.IoctlRetInt(int(f.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", node.WithKind(node.Transient, errors.Wrap(err, "cannot get a loop device"))
	}
	return "/dev/loop" + strconv.Itoa(n), nil
}

// Find is the path of the loop device that image is attached to. NotExist when it isn't.
func Find(image string) (string, error) {
	if resolved, err := filepath.EvalSymlinks(image); err == nil {
		image = resolved
	}
	names, err := filepath.Glob(filepath.Join(sysfs, "loop*"))
	if err != nil {
		return "", errors.Wrap(err, "cannot list loop devices")
	}
	for _, name := range names {
		if path := "/dev/" + filepath.Base(name); Backing(path) == image {
			return path, nil
		}
	}
	return "", node.Errorf(node.NotExist, "cannot find a loop device of image %s", image)
}

// Backing is the file that a device is attached to; empty for none. A file
// that was removed since keeps its path, with " (deleted)" after it.
func Backing(device string) string {
	text, err := os.ReadFile(filepath.Join(sysfs, filepath.Base(device), "loop", "backing_file"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// Direct says whether a device reads and writes its file directly.
func Direct(device string) bool {
	text, err := os.ReadFile(filepath.Join(sysfs, filepath.Base(device), "loop", "dio"))
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// Detach makes the device go as soon as nobody uses it, which may be at once.
func Detach(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return errors.Wrap(err, "cannot detach loop device")
	}
	defer f.Close()
	err = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil
	}
	return errors.Wrapf(err, "cannot detach loop device %s", device)
}

// Try says why this machine has no loop device to give; nil when it has one.
func Try() error {
	_, err := free()
	return err
}
