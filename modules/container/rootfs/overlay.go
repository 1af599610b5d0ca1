package rootfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	rootName   = "rootfs"
	layersName = "l"
	// pageSize is the most that a mount's options may take.
	pageSize = 4096
)

// mountOverlay mounts the root file system at folder/rootfs, see space.do.
func mountOverlay(folder string, spec Spec, userns *os.File, reached func(step string)) (err error) {
	// The overlay holds on to its layers by itself. All of them go with the
	// mount that they are in.
	defer func() {
		if gone := unmount(filepath.Join(folder, layersName)); err == nil {
			err = gone
		}
	}()
	if err := mountLayers(folder, spec, userns); err != nil {
		return err
	}
	reached("layers")
	options, err := overlayOptions(spec)
	if err != nil {
		return err
	}
	// The names of layers are short ones from here on: many of them fit. The folder is this thread's only.
	if err := unix.Chdir(folder); err != nil {
		return failed("enter", folder, err)
	}
	err = unix.Mount("croft-"+spec.ID, rootName, "overlay", unix.MS_NODEV|unix.MS_NOSUID, options)
	if errors.Is(err, unix.EINVAL) {
		return node.Errorf(node.Refused, "cannot mount the root of container %s: %w (an overlay of id-mapped layers needs Linux 5.19, "+
			"and a layer on btrfs, ext4 or xfs)", spec.ID, err)
	}
	return failed("mount the root of container", spec.ID, err)
}

// mountLayers mounts the image's layers, id-mapped, at folder/l/0 and on, in a
// mount of their own.
func mountLayers(folder string, spec Spec, userns *os.File) error {
	dir := filepath.Join(folder, layersName)
	for i := range spec.Lower {
		if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
			return failed("make", dir, err)
		}
	}
	if err := mountTree(dir, dir, 0, nil); err != nil {
		return err
	}
	for i, lower := range spec.Lower {
		err := mountTree(lower, filepath.Join(dir, strconv.Itoa(i)), unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID, userns)
		if err != nil {
			return err
		}
	}
	return nil
}

// mountTree mounts source at a path that no container can change.
func mountTree(source, at string, attributes uint64, userns *os.File) error {
	t, err := cloneTree(source)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.set(attributes, userns); err != nil {
		return mapFailed(source, err)
	}
	return failed("mount", source, t.attachAt(at))
}

// mapFailed is the error of a mount whose attributes can't be set, with the requirements.
func mapFailed(source string, err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return node.Errorf(node.Refused, "cannot id-map a mount of %s: %w (it needs Linux 5.19 and a file system that can do it, such as btrfs, ext4 or xfs)", source, err)
	}
	return failed("set the attributes of a mount of", source, err)
}

// overlayOptions are relative to the container's folder.
func overlayOptions(spec Spec) (string, error) {
	lower := make([]string, len(spec.Lower))
	for i := range lower {
		lower[i] = layersName + "/" + strconv.Itoa(i)
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + filepath.Join(spec.Layer, upperName) +
		",workdir=" + filepath.Join(spec.Layer, workName) + ",index=off"
	if len(options) >= pageSize {
		return "", spec.invalid("Lower", "its %d layers and the path of its layer are too long for a mount's options", len(lower))
	}
	return options, nil
}
