package mounts_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

// Each mount and unmount is seen, also one that happens while the one before is handled.
func TestWatchTellsOfMounts(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	mounted, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- mounts.Watch(ctx, time.Millisecond, func() {
			table, err := mounts.ReadWithin(dir)
			if err != nil {
				t.Error(err)
			}
			select {
			case mounted <- len(table) > 0:
			case <-ctx.Done():
			}
		})
	}()
	wait := func(want bool) {
		t.Helper()
		for end := time.After(20 * time.Second); ; {
			select {
			case is := <-mounted: // others mount too
				if is == want {
					return
				}
			case <-end:
				t.Fatalf("that it is mounted, %t, isn't told", want)
			}
		}
	}
	wait(false)
	for range 50 {
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		wait(true)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		wait(false)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v", err)
	}
}
