package mounts_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

func TestWatchTellsOfMounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 1000), make(chan error, 1)
	go func() { ended <- mounts.Watch(ctx, 10*time.Millisecond, func() { told <- struct{}{} }) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s isn't told", what)
		}
	}
	dir := t.TempDir()
	// The watch begins at some time, and other tests mount too: so until one is told.
	began := make(chan struct{})
	go func() {
		defer close(began)
		for len(told) == 0 && ctx.Err() == nil {
			_ = unix.Mount("none", dir, "tmpfs", 0, "")
			_ = unix.Unmount(dir, 0)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	<-began
	for len(told) > 0 {
		<-told
	}
	time.Sleep(100 * time.Millisecond)
	for len(told) > 0 {
		<-told
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	wait("a mount")
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	wait("an unmount")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v", err)
	}
}
