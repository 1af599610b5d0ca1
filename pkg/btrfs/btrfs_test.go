package btrfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/kerneltest"
	"github.com/croft-edge/croft/pkg/loop"
)

// mounted makes a btrfs of its own on a loop file and returns its mount point.
func mounted(t *testing.T, size int64) string {
	t.Helper()
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "disk.img"), filepath.Join(dir, "mnt")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, size))
	check(t, os.Mkdir(mount, 0o700))
	if out, err := exec.CommandContext(t.Context(), "mkfs.btrfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a btrfs: %v: %s", err, out)
	}
	device, err := loop.Attach(t.Context(), image)
	check(t, err)
	t.Cleanup(func() { unix.Unmount(mount, unix.MNT_DETACH) })
	err = unix.Mount(device.Path(), mount, "btrfs", unix.MS_NODEV|unix.MS_NOATIME, "")
	check(t, device.Close())
	check(t, err)
	return mount
}

func opened(t *testing.T, mount string) *FS {
	t.Helper()
	f, err := Open(mount)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kinds are those that the kernel has: simple quotas came with Linux 6.7.
func kinds(t *testing.T) []Quota {
	t.Helper()
	if kerneltest.AtLeast(t, 6, 7) {
		return []Quota{Simple, Qgroup}
	}
	return []Quota{Qgroup}
}

// asNobody runs f on a thread without any privilege.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			done <- errno
			return
		}
		done <- f()
	}()
	return <-done
}

// fill writes to a file in dir until it fails or most bytes are written, and
// returns how much was.
func fill(t *testing.T, path string, most int64) (int64, error) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block, written := make([]byte, 1<<20), int64(0)
	for i := range block {
		block[i] = byte(i * 7)
	}
	for written < most {
		n, err := f.Write(block)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, f.Sync()
}
