package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
	"github.com/croft-edge/croft/internal/guest/fslabel"
)

// Places before the root folder changes. diskAt is where init mounts the disk of the tests.
const (
	diskAt    = "/run/test"
	scratchAt = "/run/inside/scratch"
	newAt     = "/run/inside/root"
)

// enter makes a mount namespace whose root folder has the node's own files, and below them those of the tools that tests call. What is
// written there goes to the scratch disk. The node's mounts stay outside: it goes on running.
func enter() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("cannot make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot set how mounts propagate: %w", err)
	}
	if err := mountScratch(); err != nil {
		return err
	}
	if err := assemble(); err != nil {
		return err
	}
	if err := os.Chdir(newAt); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot let the old root go: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot share mounts: %w", err)
	}
	return os.Chdir("/")
}

// mountScratch mounts the disk that tests write to.
func mountScratch() error {
	entries, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return err
	}
	for _, e := range entries {
		device := "/dev/" + e.Name()
		found, err := fslabel.Of(device)
		if err != nil || !found.Is(wire.ScratchLabel) {
			continue
		}
		if err := os.MkdirAll(scratchAt, 0o700); err != nil {
			return err
		}
		if err := unix.Mount(device, scratchAt, found.Kind, 0, ""); err != nil {
			return fmt.Errorf("cannot mount the scratch disk %s: %w", device, err)
		}
		return nil
	}
	return fmt.Errorf("cannot find a disk with the label %s", wire.ScratchLabel)
}

// assemble mounts all of the new root folder.
func assemble() error {
	for dir, mode := range map[string]os.FileMode{"upper": 0o755, "work": 0o755, "tmp": 0o777 | os.ModeSticky, "vartmp": 0o777 | os.ModeSticky, "varlib": 0o755} {
		if err := os.MkdirAll(filepath.Join(scratchAt, dir), mode); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(scratchAt, dir), mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(newAt, 0o755); err != nil {
		return err
	}
	layers := fmt.Sprintf("lowerdir=/:%s/root,upperdir=%s/upper,workdir=%s/work", diskAt, scratchAt, scratchAt)
	if err := unix.Mount("overlay", newAt, "overlay", 0, layers); err != nil {
		return fmt.Errorf("cannot mount the root folder of the tests: %w", err)
	}
	if err := preferTools(newAt, diskAt+"/root"); err != nil {
		return err
	}
	for _, m := range []struct {
		from, at, kind string
		flags          uintptr
	}{
		{"/proc", "/proc", "", unix.MS_BIND | unix.MS_REC},
		{"/sys", "/sys", "", unix.MS_BIND | unix.MS_REC},
		{"/dev", "/dev", "", unix.MS_BIND | unix.MS_REC},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV},
		{scratchAt + "/tmp", "/tmp", "", unix.MS_BIND},
		{scratchAt + "/vartmp", "/var/tmp", "", unix.MS_BIND},
		{scratchAt + "/varlib", "/var/lib", "", unix.MS_BIND},
		{diskAt + "/src", wire.SourceAt, "", unix.MS_BIND},
		{diskAt + "/tests", wire.TestsAt, "", unix.MS_BIND},
	} {
		at := filepath.Join(newAt, m.at)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.from, at, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.at, err)
		}
	}
	return nil
}

// preferTools puts the tests' own programs before the node's shortened ones of the same name, such as ip, which are links to busybox. All
// else is the node's.
func preferTools(root, tools string) error {
	const first = "usr/local/bin" // of PATH
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		entries, err := os.ReadDir(filepath.Join(tools, dir))
		if err != nil {
			return fmt.Errorf("cannot list the tools: %w", err)
		}
		for _, e := range entries {
			name := filepath.Join("/", dir, e.Name())
			// A tool's link may lead to a name that the node has a shortened program of: mkfs.ext4 is mke2fs.
			if filepath.Base(resolved(root, name)) != "busybox" {
				continue
			}
			program, err := os.ReadFile(tools + resolved(tools, name))
			if err != nil {
				return fmt.Errorf("cannot read tool %s: %w", e.Name(), err)
			}
			if err := os.WriteFile(filepath.Join(root, first, e.Name()), program, 0o755); err != nil {
				return fmt.Errorf("cannot place tool %s: %w", e.Name(), err)
			}
		}
	}
	return nil
}

// mostLinks is how many links lead from a name to a file at most.
const mostLinks = 16

// resolved is where the links of a file below a root folder lead, itself a path below that folder.
func resolved(root, name string) string {
	for range mostLinks {
		target, err := os.Readlink(root + name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name), target)
		}
		name = target
	}
	return name
}
