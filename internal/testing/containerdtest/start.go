package containerdtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
)

// patience is for a slow, busy machine.
const patience = 2 * time.Minute

// Start starts croft's own containerd for a test, and ends it after the test with everything that it
// started.
func Start(t testing.TB) *containerd.Daemon {
	t.Helper()
	return Open(t, Config(t))
}

// Config is the configuration of a containerd in a new folder, with a unique prefix. When the test
// ends, all processes that run from the folder are ended.
func Config(t testing.TB) containerd.Config {
	t.Helper()
	dir := Folder(t)
	c := containerd.Config{
		Own: true, RunDir: filepath.Join(dir, "run"), StateDir: filepath.Join(dir, "state"),
		Prefix: "t" + random(4), Within: patience, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	}
	t.Cleanup(func() { Clean(t, c) })
	return c
}

// Open opens a containerd, and closes it when the test ends.
func Open(t testing.TB, c containerd.Config) *containerd.Daemon {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := containerd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Folder is a new temporary folder with a short name that everybody may traverse. When the test ends,
// all mounts below it are unmounted.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		Unmount(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("cannot remove %s: %v", dir, err)
		}
	})
	return dir
}

func random(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}
