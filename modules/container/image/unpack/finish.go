package unpack

import (
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// finish does the steps that only the node's root can do, in a folder that the unpacking
// process has filled: it marks the opaque folders, which hide those of layers below, and
// syncs all of it to disk before containerd records the layer.
func finish(upper string, opaque []string) error {
	root, err := unix.Open(upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return node.Errorf(node.Internal, "cannot open a layer: %w", err)
	}
	defer unix.Close(root)
	if int64(len(opaque)) > Opaque.Each {
		return refused("more than %d of its folders hide those of a layer below", Opaque.Each)
	}
	for _, at := range opaque {
		if err := hide(root, at); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(root); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return node.Errorf(node.NoSpace, "cannot write a layer to the disk: %w", err)
		}
		return node.Errorf(node.Internal, "cannot write a layer to the disk: %w", err)
	}
	return nil
}

// hide marks a folder of a layer as opaque for overlayfs. A path that is no folder, or
// lies behind a link, is skipped.
func hide(root int, at string) error {
	fd, err := unix.Openat2(root, "."+filepath.Clean("/"+at), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		return node.Errorf(node.Internal, "cannot open a folder of a layer: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Fsetxattr(fd, "trusted.overlay.opaque", []byte{'y'}, 0); err != nil {
		return node.Errorf(node.Internal, "cannot mark a folder of a layer: %w", err)
	}
	return nil
}
