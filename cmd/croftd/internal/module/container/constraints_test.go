package container

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
)

// TestAnOldContainerdIsAnUnmetConstraint, and one that isn't there is a failure.
func TestAnOldContainerdIsAnUnmetConstraint(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // a container's root walks through it
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, "containerd")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho containerd github.com/containerd/containerd 1.4.13~ds1 1.4.13~ds1-1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"state", "run"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o711); err != nil { //nolint:gosec // a container's root walks through it
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, mounted := range []string{"secret", "container"} {
			_ = unix.Unmount(filepath.Join(dir, "run", mounted), unix.MNT_DETACH)
		}
	})
	begin := func(binary string) error {
		settings := config.Config{StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Containers: config.Containers{
			OwnContainerd: true, ContainerdBinary: binary, Cgroup: "croft-" + filepath.Base(filepath.Dir(dir)),
		}}
		m, err := Descriptor().Open(t.Context(), module.Host{Config: settings, Log: zerolog.Nop()})
		if err == nil {
			_ = m.Close(t.Context())
		}
		return err
	}
	var unmet module.UnmetError
	if err := begin(old); !errors.As(err, &unmet) || !strings.HasPrefix(err.Error(), `containerd 1.6 or newer is needed, this is "1.4.13~ds1" (`+dir) {
		t.Errorf("an old one: %v", err)
	}
	if err := begin(filepath.Join(dir, "none")); err == nil || errors.As(err, &unmet) {
		t.Errorf("none: %v", err)
	}
}
