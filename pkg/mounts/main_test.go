package mounts_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The first goroutine keeps the process's first thread, which /proc/self stands for.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // only what init locks stays on the first thread

// TestMain puts the first thread into a mount namespace of its own, as a locked goroutine may: the tests' own
// threads stay where they were, and what they mount isn't in /proc/self/mountinfo.
func TestMain(m *testing.M) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		fmt.Fprintln(os.Stderr, "unshare:", err)
		os.Exit(1)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "make private:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
