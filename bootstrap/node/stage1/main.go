// Command stage1 is /init of the node's initrd. It loads the drivers of the machine's disks, finds the image that the machine boots,
// checks its signature where a key is built in, mounts its root file system, of which the kernel checks each block (dm-verity), and goes
// on there with /sbin/init. It writes to no disk, and runs in memory that it gives back.
//
// The image lies in the initramfs, below /image, where a network server brought it; or on the file system with the label CROFT-BOOT.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/cmdline"
)

const (
	// nextInit is the first process of the root file system.
	nextInit = "/sbin/init"
	// again is how long an error is shown before the machine starts again: a disk may come then, and a trial of another image is over.
	again = 30 * time.Second
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "cannot run as a program: this is the first process of a machine")
		os.Exit(1)
	}
	err := boot()
	say("cannot boot: %v", err)
	say("the machine starts again in %s", again)
	<-time.After(again)
	if err := guest.Stop(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		say("cannot start again: %v", err)
	}
	select {}
}

// boot returns only with an error.
func boot() error {
	if err := guest.MountKernel(); err != nil {
		return err
	}
	line, err := cmdline.Read()
	if err != nil {
		return err
	}
	key, err := builtInKey(keyFile)
	if err != nil {
		return err
	}
	slot, err := chosenSlot(line)
	if err != nil {
		return err
	}
	found, err := find(slot)
	if err != nil {
		return err
	}
	image, err := check(found.folder, key)
	if err != nil {
		return err
	}
	say("%s", found.booted(image.Version, key))
	if err := mountRoot(found.folder, image.Root); err != nil {
		return err
	}
	return change(found, key)
}

// say writes a line to the console, with the time since the kernel's start.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "croft: %7.2f %s\n", guest.UptimeSeconds(), fmt.Sprintf(format, args...))
}
