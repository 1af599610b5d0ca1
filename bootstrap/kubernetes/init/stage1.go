package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

const (
	// rootSerial and dataSerial are the serial numbers of the machine's disks.
	rootSerial = "root"
	dataSerial = "data"
	// diskTime is how long a disk may take to appear.
	diskTime = 30 * time.Second
	newRoot  = "/newroot"
)

// stage1 goes on in the root file system, which is a squashfs on the disk root. It returns only with an error.
func stage1() error {
	if err := guest.MountKernel(); err != nil {
		return err
	}
	if err := guest.LoadModules("/modules"); err != nil {
		say("cannot load all modules: %v", err)
	}
	disk, err := waitForDisk(rootSerial)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(disk.Device(), newRoot, "squashfs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("cannot mount the root file system on %s: %w", disk.Name, err)
	}
	for _, at := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(at, newRoot+at, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("cannot move %s: %w", at, err)
		}
	}
	// The initrd is memory.
	os.RemoveAll("/modules")
	os.Remove("/init")
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cannot change to the root file system: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("cannot change to the root file system: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return fmt.Errorf("cannot start %s: %w", program, unix.Exec(program, []string{program}, os.Environ()))
}

// waitForDisk waits for the disk with that serial number.
func waitForDisk(serial string) (guest.Disk, error) {
	for end := time.Now().Add(diskTime); ; {
		for _, d := range guest.Disks() {
			if d.Serial == serial {
				return d, nil
			}
		}
		if time.Now().After(end) {
			return guest.Disk{}, fmt.Errorf("there is no disk with serial number %s", serial)
		}
		<-time.After(20 * time.Millisecond)
	}
}
