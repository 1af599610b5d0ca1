package vm

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// configSerial is the serial number of the config disk.
const configSerial = "croft-config"

// openFiles opens all files of a VM, and fills the machine with their numbers. The caller closes them.
func openFiles(ctx context.Context, r machine.Record, at machine.Files, console *os.File, m *qemu.Machine) (files *launch.Files, err error) {
	files, s := &launch.Files{}, r.Spec
	defer func() {
		if err != nil {
			files.Close()
		}
	}()
	m.Channels.Log = files.Add(console)
	for number, path := range map[*int]string{&m.Kernel: s.Kernel, &m.Initrd: s.Initrd} {
		if path == "" {
			continue
		}
		file, err := openBoot(path)
		if err != nil {
			return files, err
		}
		*number = files.Add(file)
	}
	disks := s.Disks
	switch _, err := os.Lstat(at.Config()); {
	case err != nil && r.Configured:
		return files, node.Errorf(node.Transient, "cannot start VM %s: its config disk is gone; its reservation makes it anew", s.ID)
	case err == nil:
		disks = append(disks[:len(disks):len(disks)], node.VMDisk{Path: at.Config(), Serial: configSerial, ReadOnly: true})
	}
	for _, d := range disks {
		drive, err := openDisk(d, files)
		if err != nil {
			return files, err
		}
		m.Drives = append(m.Drives, drive)
	}
	for number, path := range map[*int]string{&m.Channels.QMP: at.QMP(), &m.Channels.Console: at.Console()} {
		socket, err := listen(path)
		if err != nil {
			return files, err
		}
		*number = files.Add(socket)
	}
	if s.Tap.Device == "" {
		return files, nil
	}
	tap, err := openTap(ctx, s.Tap)
	if err != nil {
		return files, err
	}
	m.Network = qemu.Network{Tap: files.Add(tap), MAC: s.Tap.MAC}
	return files, nil
}

// openDisk opens a disk, and adds it to files. The guest is offered discards of one that it writes and that is on btrfs, whose extents
// package discard knows.
func openDisk(d node.VMDisk, files *launch.Files) (qemu.Drive, error) {
	drive, flags := qemu.Drive{Serial: d.Serial, ReadOnly: d.ReadOnly}, os.O_RDWR
	if d.ReadOnly {
		flags = os.O_RDONLY
	}
	file, err := openRegular(d.Path, flags)
	if err != nil {
		return drive, err
	}
	drive.Descriptor = files.Add(file)
	var system unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &system); err != nil {
		return drive, errors.Wrap(err, "cannot look at a disk's file system")
	}
	drive.Discards = !d.ReadOnly && system.Type == unix.BTRFS_SUPER_MAGIC
	return drive, nil
}

// openRegular opens a regular file, whose last part is no link. NotExist when there is none.
func openRegular(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, node.Errorf(node.NotExist, "cannot open %s: there is no such file", path)
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot open a VM's file")
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = node.Errorf(node.Invalid, "cannot open %s for a VM: it is no regular file", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// openBoot opens a kernel or an initrd. QEMU's user opens it again, by the descriptor: so everybody must be allowed to read it.
func openBoot(path string) (*os.File, error) {
	file, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	const everybodyReads = 0o004
	info, err := file.Stat()
	if err == nil && info.Mode()&everybodyReads == 0 {
		err = node.Errorf(node.Invalid, "cannot boot %s: its mode is %s, everybody must be allowed to read it", path, info.Mode())
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// listen makes a listening unix socket for QEMU. Nobody but root can connect: the folder is root's.
func listen(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Wrap(err, "cannot replace a VM's socket")
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a VM's socket")
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	file, err := listener.File()
	return file, errors.Wrap(err, "cannot hand over a VM's socket")
}

// longestTapPause bounds the pauses in which openTap waits for a tap device; all together are nearly twice as long.
const longestTapPause = 1024 * time.Millisecond

// openTap opens a persistent tap device in its namespace. NotExist without the device, Busy when another process has it.
//
// A program that this process starts has a copy of each of its descriptors from fork until the kernel closes them in exec, also of a tap device
// that was closed here meanwhile: a busy device is tried again for two seconds.
func openTap(ctx context.Context, t node.VMTap) (file *os.File, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		err = netns.Do(t.Namespace, func() (err error) {
			file, err = openTapHere(t)
			return err
		})
		if node.KindOf(err) != node.Busy || pause > longestTapPause {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// tapDrift says what is wrong with the tap device of a VM that runs, as far as it is known; empty when its QEMU has it
// open. A tap device has a carrier while a process has it open (Linux, drivers/net/tun.c).
func tapDrift(t node.VMTap) (drift string) {
	if t.Device == "" {
		return ""
	}
	err := netns.Do(t.Namespace, func() error {
		link, err := netlink.LinkByName(t.Device)
		var gone netlink.LinkNotFoundError
		switch {
		case errors.As(err, &gone):
			drift = "its tap device is gone"
		case err != nil:
			return err
		case link.Attrs().RawFlags&unix.IFF_UP != 0 && link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0:
			drift = "its tap device was made anew: the VM isn't connected"
		}
		return nil
	})
	if node.KindOf(err) == node.NotExist {
		return "its network is gone"
	}
	return drift
}

// openTapHere opens it in the thread's namespace.
func openTapHere(t node.VMTap) (*os.File, error) {
	// Without a device of that name the kernel would make one.
	if _, err := net.InterfaceByName(t.Device); err != nil {
		return nil, node.Errorf(node.NotExist, "cannot open tap device %s: there is none in %s", t.Device, t.Namespace)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open /dev/net/tun")
	}
	file := os.NewFile(uintptr(fd), t.Device)
	request, err := unix.NewIfreq(t.Device)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		err = node.Errorf(node.Busy, "cannot open tap device %s: another process has it", t.Device)
	case err != nil:
		err = errors.Wrapf(err, "cannot open tap device %s", t.Device)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
