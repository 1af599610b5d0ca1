// Command unchroot runs a command in a mount namespace of its own, so that its mounts are
// as on any machine that has booted, and end with it. It needs root.
//
//	unchroot COMMAND [ARGUMENT…]
//
// The command's root folder is the root of the namespace. In a chroot it isn't, and the kernel makes no
// user namespaces there, nor can runc change its root: a test of containers in a fresh root folder needs this.
//
// The mounts are shared, as systemd makes them: an unmount reaches the mount namespaces that processes have
// made from this one. With private mounts, a device stays in use until each of them has ended.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: unchroot COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	err := enter()
	if err == nil {
		err = run(os.Args[1:])
	}
	fmt.Fprintln(os.Stderr, "unchroot:", err)
	os.Exit(1)
}

// run becomes the command.
func run(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, command, os.Environ())
}

// enter makes a mount namespace of the root folder. Changes of mounts there affect no process outside.
func enter() error {
	// All of this is one thread's, which the command then takes over.
	runtime.LockOSThread()
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	root, err := openRoot()
	if err != nil {
		return err
	}
	inside, err := chrooted(root)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("cannot make a mount namespace: %w", err)
	}
	if inside {
		err = leaveChroot()
	} else {
		err = propagate(unix.MS_PRIVATE)
	}
	if err != nil {
		return err
	}
	if err := propagate(unix.MS_SHARED); err != nil {
		return err
	}
	return os.Chdir(here)
}

func openRoot() (int, error) {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot open the root folder: %w", err)
	}
	return root, nil
}

// propagate sets how all mounts propagate.
func propagate(how uintptr) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|how, ""); err != nil {
		return fmt.Errorf("cannot set how mounts propagate: %w", err)
	}
	return nil
}

// leaveChroot makes the root folder of the process that of its mount namespace.
func leaveChroot() error {
	// The same folder, by the mounts of the new namespace.
	root, err := openRoot()
	if err != nil {
		return err
	}
	mounts, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open the mount namespace: %w", err)
	}
	// Entering a mount namespace moves the thread to that namespace's root.
	if err := unix.Setns(mounts, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("cannot enter the mount namespace: %w", err)
	}
	if err := propagate(unix.MS_PRIVATE); err != nil {
		return err
	}
	return pivot(root)
}

// chrooted reports whether the folder root isn't where its mount begins: the
// root of a machine always is.
func chrooted(root int) (bool, error) {
	var s unix.Statx_t
	if err := unix.Statx(root, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &s); err != nil {
		return false, fmt.Errorf("cannot look at the root folder: %w", err)
	}
	return s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && s.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0, nil
}

// pivot makes the folder a mount with all that is mounted below it, and that the root.
func pivot(root int) error {
	tree, err := unix.OpenTree(root, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("cannot copy the mounts of the root folder: %w", err)
	}
	if err := unix.MoveMount(tree, "", root, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("cannot mount the root folder: %w", err)
	}
	if err := unix.Fchdir(tree); err != nil {
		return fmt.Errorf("cannot go to the root folder: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot let the old root go: %w", err)
	}
	return os.Chdir("/")
}
