package main

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/dm"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/nodeimage/verity"
)

const (
	newRoot  = "/newroot"
	rootName = "croft-root"
)

// mountRoot mounts the root file system of an image.
func mountRoot(folder string, tree verity.Tree) error {
	loop, err := dm.Loop(filepath.Join(folder, nodeimage.RootFile))
	if err != nil {
		return err
	}
	defer loop.Close() // device mapper has it open then
	device, err := dm.ReadOnly(rootName, "verity", tree.Table(loop.Name()), tree.Sectors())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	err = unix.Mount(device, newRoot, "squashfs", unix.MS_RDONLY|unix.MS_NODEV, "")
	return errors.Wrap(err, "cannot mount the root file system: it isn't the image's, or damaged")
}

// change goes on in the root file system, and tells its init where the image is and its key, nil without one. It returns only with an error.
func change(f found, key ed25519.PublicKey) error {
	moved := []string{"/proc", "/sys", "/dev"}
	if f.device != "" {
		moved = append(moved, bootAt)
	}
	for _, at := range moved {
		if err := unix.Mount(at, newRoot+at, "", unix.MS_MOVE, ""); err != nil {
			return errors.Wrapf(err, "cannot move %s to the root file system", at)
		}
	}
	// The initramfs is memory. An image that the network brought stays: it is the root file system.
	for _, path := range []string{"/modules", "/init"} {
		_ = os.RemoveAll(path) // memory, nothing else
	}
	if err := os.Chdir(newRoot); err != nil {
		return errors.Wrap(err, "cannot change to the root file system")
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return errors.Wrap(err, "cannot change to the root file system")
	}
	if err := unix.Chroot("."); err != nil {
		return errors.Wrap(err, "cannot change to the root file system")
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	_ = guest.ReadAhead(nextInit) // without it the program begins all the same
	environment := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", nodeimage.SlotVariable + "=" + f.slot, nodeimage.DeviceVariable + "=" + f.device}
	if key != nil {
		environment = append(environment, nodeimage.KeyVariable+"="+strings.TrimSpace(string(nodeimage.EncodeKey(key))))
	}
	return errors.Wrapf(unix.Exec(nextInit, []string{nextInit}, environment), "cannot start %s", nextInit)
}
