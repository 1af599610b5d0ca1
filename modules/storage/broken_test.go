package storage

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// twoPools is a config with an SSD and an HDD pool.
func twoPools(t *testing.T) Config {
	t.Helper()
	cfg := newConfig(t)
	cfg.Pools = append(cfg.Pools, PoolSpec{Name: "hdd0", Type: workload.HDD, LoopSize: poolSize})
	return cfg
}

// wantBroken checks that ssd0 is broken for that cause, and hdd0 goes on.
func wantBroken(t *testing.T, m *Module, cause string) {
	t.Helper()
	status := m.status()
	if len(status.BrokenPools) != 1 || status.BrokenPools[0].Name != "ssd0" || !strings.Contains(status.BrokenPools[0].Cause, cause) {
		t.Fatalf("broken are %+v, want ssd0 because of %q", status.BrokenPools, cause)
	}
	if len(status.Pools) != 1 || status.Pools[0].Name != "hdd0" {
		t.Fatalf("pools are %+v, want hdd0", status.Pools)
	}
	s := m.Storage()
	for what, err := range map[string]error{
		"creating what lies on it":   second(s.CreateFilesystem(node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: workload.SSD})),
		"creating it elsewhere":      second(s.CreateFilesystem(node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: workload.HDD})),
		"inspecting what lies on it": second(s.InspectFilesystem("7-1")),
		"releasing what lies on it":  s.ReleaseFilesystem("7-1"),
		"creating another":           second(s.CreateFilesystem(node.FilesystemSpec{Name: "7-9", Size: 32 * mib, DiskType: workload.SSD})),
	} {
		if !errors.Is(err, node.Transient) || errors.Is(err, node.NotExist) || !strings.Contains(err.Error(), "pool ssd0 is broken") {
			t.Errorf("%s gives %v (kind %s)", what, err, node.KindOf(err))
		}
	}
	if err := s.ReleaseFilesystem("9-9"); !errors.Is(err, node.NotExist) {
		t.Errorf("releasing what is nowhere gives %v", err)
	}
	f, err := s.CreateFilesystem(node.FilesystemSpec{Name: "7-3", Size: 32 * mib, DiskType: workload.HDD})
	check(t, err)
	if got := names(t, m); !slices.Equal(got, []string{"7-2", "7-3"}) || f.Pool != "hdd0" {
		t.Errorf("listed are %q, %+v", got, f)
	}
	d, err := m.VDisks().Allocate(diskSpec("8-1", 16*mib))
	if err != nil || !strings.Contains(d.Path, "hdd0") {
		t.Errorf("a vdisk is at %q (%v)", d.Path, err)
	}
}

func second[T any](_ T, err error) error { return err }

// settled is a module with 7-1 on ssd0 and 7-2 on hdd0.
func settled(t *testing.T) *Module {
	t.Helper()
	m := opened(t, twoPools(t))
	write(t, create(t, m, "7-1", 32*mib).Path, "kept")
	_, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-2", Size: 32 * mib, DiskType: workload.HDD})
	check(t, err)
	return m
}

func TestMissingImage(t *testing.T) {
	m := settled(t)
	image := m.cfg.image("ssd0")
	kill(t, m)
	check(t, Detach(t.Context(), m.cfg))
	check(t, os.Rename(image, image+".away"))
	m = opened(t, m.cfg)
	wantBroken(t, m, "is missing")
	if _, err := os.Lstat(image); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an image was made in its place: %v", err)
	}
	// It comes back.
	kill(t, m)
	check(t, Detach(t.Context(), m.cfg))
	check(t, os.Rename(image+".away", image))
	m = opened(t, m.cfg)
	wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
}

func TestDamagedImage(t *testing.T) {
	damage := map[string]struct {
		at    int64
		cause string
	}{
		"magic":    {64<<10 + 0x40, "there is none of btrfs"},
		"checksum": {64 << 10, "cannot mount"},
		"label":    {64<<10 + 0x12b, "label"},
	}
	for name, d := range damage {
		t.Run(name, func(t *testing.T) {
			m := settled(t)
			image := m.cfg.image("ssd0")
			kill(t, m)
			check(t, Detach(t.Context(), m.cfg))
			old := swap(t, image, d.at, []byte{0xde, 0xad})
			m = opened(t, m.cfg)
			wantBroken(t, m, d.cause)
			// Nothing else was done to it: put right, it is as it was.
			kill(t, m)
			swap(t, image, d.at, old)
			m = opened(t, m.cfg)
			wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
		})
	}
}

// swap writes b to a file and returns the old content.
func swap(t *testing.T, path string, at int64, b []byte) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	old := make([]byte, len(b))
	_, err = f.ReadAt(old, at)
	check(t, err)
	_, err = f.WriteAt(b, at)
	check(t, errors.Join(err, f.Close()))
	return old
}

// TestOtherImage puts another pool's image in the place of one.
func TestOtherImage(t *testing.T) {
	m, other := settled(t), opened(t, newConfig(t))
	kill(t, m)
	kill(t, other)
	check(t, Detach(t.Context(), m.cfg))
	check(t, Detach(t.Context(), other.cfg))
	check(t, os.Rename(other.cfg.image("ssd0"), m.cfg.image("ssd0")))
	wantBroken(t, opened(t, m.cfg), "UUID")
}

// TestForeignImage wants a file that lies where an image would, and that croft
// didn't make, to stay as it is.
func TestForeignImage(t *testing.T) {
	cfg := newConfig(t).complete()
	check(t, os.MkdirAll(cfg.poolsDir(), 0o700))
	check(t, os.WriteFile(cfg.image("ssd0"), []byte("my only copy"), 0o600))
	m := opened(t, cfg)
	if status := m.status(); len(status.BrokenPools) != 1 || len(status.Pools) != 0 {
		t.Errorf("the status is %+v", status)
	}
	data, err := os.ReadFile(cfg.image("ssd0"))
	if err != nil || string(data) != "my only copy" {
		t.Errorf("the file holds %q (%v)", data, err)
	}
}

// TestLostMark wants a pool without its mark to be adopted, and marked.
func TestLostMark(t *testing.T) {
	m := settled(t)
	kill(t, m)
	check(t, os.Remove(m.cfg.markOf("ssd0")))
	check(t, os.WriteFile(m.cfg.markOf("hdd0"), []byte("{"), 0o600))
	m = opened(t, m.cfg)
	wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
	if _, err := os.Stat(m.cfg.markOf("ssd0")); err != nil {
		t.Error(err)
	}
	// A damaged mark says only that there was a pool.
	if status := m.status(); len(status.BrokenPools) != 1 || status.BrokenPools[0].Name != "hdd0" {
		t.Errorf("broken are %+v", status.BrokenPools)
	}
}

// TestReadOnlyPool tests a pool that the kernel has made read-only after an error.
func TestReadOnlyPool(t *testing.T) {
	m := settled(t)
	check(t, unix.Mount("", m.pools[0].path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	status := m.status()
	if len(status.BrokenPools) != 1 || !strings.Contains(status.BrokenPools[0].Cause, "read-only") {
		t.Fatalf("broken are %+v", status.BrokenPools)
	}
	s := m.Storage()
	for what, err := range map[string]error{
		"creating":  second(s.CreateFilesystem(node.FilesystemSpec{Name: "7-9", Size: 32 * mib, DiskType: workload.SSD})),
		"releasing": s.ReleaseFilesystem("7-1"),
	} {
		if !errors.Is(err, node.Transient) {
			t.Errorf("%s gives %v (kind %s)", what, err, node.KindOf(err))
		}
	}
	// Existing data can still be read.
	f, err := s.InspectFilesystem("7-1")
	check(t, err)
	wantData(t, f.Path, "kept")
	wantWholeAfter := reopen(t, m)
	if status := wantWholeAfter.status(); len(status.BrokenPools) != 1 {
		t.Errorf("after a restart broken are %+v", status.BrokenPools)
	}
}

// TestSomethingElseMounted wants a foreign mount in a pool's place to be left alone.
func TestSomethingElseMounted(t *testing.T) {
	m := settled(t)
	kill(t, m)
	check(t, unix.Unmount(m.pools[0].path, 0))
	check(t, unix.Mount("none", m.pools[0].path, "tmpfs", 0, "size=1m"))
	wantBroken(t, opened(t, m.cfg), "no btrfs is mounted")
}

// TestAnotherPoolMounted wants a btrfs that isn't the pool to be left alone too.
func TestAnotherPoolMounted(t *testing.T) {
	m := settled(t)
	kill(t, m)
	path := m.pools[0].path
	check(t, unix.Unmount(path, 0))
	disk, _ := newDisk(t)
	check(t, blockdev.Format(t.Context(), disk, "ssd0", false))
	check(t, mountPool(disk, path))
	wantBroken(t, opened(t, m.cfg), "another file system")
	if left := folderNames(t, path); len(left) != 0 {
		t.Errorf("in it there is %q", left)
	}
}

func TestForgottenPool(t *testing.T) {
	m := settled(t)
	kill(t, m)
	m.cfg.Pools = m.cfg.Pools[1:]
	wantBrokenForgotten(t, opened(t, m.cfg))
}

func wantBrokenForgotten(t *testing.T, m *Module) {
	t.Helper()
	status := m.status()
	if len(status.BrokenPools) != 1 || !strings.Contains(status.BrokenPools[0].Cause, "configuration") {
		t.Errorf("broken are %+v", status.BrokenPools)
	}
	if err := m.Storage().ReleaseFilesystem("7-1"); !errors.Is(err, node.Transient) {
		t.Errorf("releasing what lies on it gives %v", err)
	}
	_, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-9", Size: 32 * mib, DiskType: workload.SSD})
	if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "disk type SSD: this node offers HDD") {
		t.Errorf("creating one of its type gives %v", err)
	}
}

// TestNoTools wants a node without mkfs.btrfs to say so.
func TestNoTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	m := opened(t, newConfig(t))
	status := m.status()
	if len(status.BrokenPools) != 1 || !strings.Contains(status.BrokenPools[0].Cause, "mkfs.btrfs: it isn't installed") {
		t.Errorf("broken are %+v", status.BrokenPools)
	}
	if _, err := exec.LookPath("mkfs.btrfs"); err == nil {
		t.Error("the tool is there")
	}
}
