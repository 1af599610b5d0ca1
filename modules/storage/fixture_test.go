package storage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/kerneltest"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	kib = bytesize.KiB
	mib = bytesize.MiB
	gib = bytesize.GiB
	tib = bytesize.TiB

	minSize  = volume.MinSize
	poolSize = gib / 2
)

// command runs a tool, and returns its output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// newConfig is one of a node with an SSD pool on a loop file. Whatever the
// test does, nothing of it stays mounted or attached.
func newConfig(t *testing.T) Config {
	t.Helper()
	state := t.TempDir()
	t.Cleanup(func() { sweep(t, state) })
	return Config{
		State: state, Pools: DefaultPools(poolSize),
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
	}
}

// sweep unmounts and detaches all below dir, also mounts in use.
func sweep(t testing.TB, dir string) {
	t.Helper()
	mounted, err := mounts.Read()
	if err != nil {
		t.Error(err)
	}
	for _, path := range slices.Backward(mounted.Within(dir).Paths()) {
		unix.Unmount(path, unix.MNT_DETACH)
	}
	devices, err := filepath.Glob("/sys/block/loop*")
	if err != nil {
		t.Error(err)
	}
	for _, d := range devices {
		device := "/dev/" + filepath.Base(d)
		if rel, err := filepath.Rel(dir, loop.Backing(device)); err == nil && filepath.IsLocal(rel) {
			loop.Detach(device)
		}
	}
}

// quotaKinds are those that the kernel has: simple quotas came with Linux 6.7.
// The best one is first.
func quotaKinds(t *testing.T) []volume.Quota {
	t.Helper()
	if kerneltest.AtLeast(t, 6, 7) {
		return []volume.Quota{volume.Simple, volume.Qgroup}
	}
	return []volume.Quota{volume.Qgroup}
}

func opened(t *testing.T, cfg Config) *Module {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// kill ends a module as kill -9 does: the kernel lets go of its lock, its
// threads are gone, and nothing else happens.
func kill(t *testing.T, m *Module) {
	t.Helper()
	check(t, m.end())
	<-m.ended
}

// reopen kills m and opens another on the same state.
func reopen(t *testing.T, m *Module) *Module {
	t.Helper()
	kill(t, m)
	return opened(t, m.cfg)
}

// reboot takes away what a reboot takes, after m was killed.
func reboot(t *testing.T, m *Module) *Module {
	t.Helper()
	kill(t, m)
	check(t, Detach(t.Context(), m.cfg))
	for _, p := range m.pools {
		if _, mounted, err := mountedAt(p.path); err != nil || mounted {
			t.Fatalf("%s is still mounted (%v)", p.path, err)
		}
	}
	return opened(t, m.cfg)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, m *Module, name string, size uint64) node.Filesystem {
	t.Helper()
	f, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: name, Size: size, DiskType: workload.SSD})
	check(t, err)
	return f
}

func diskSpec(name string, size uint64) node.VDiskSpec {
	return node.VDiskSpec{Name: name, Size: size}
}

func allocate(t *testing.T, m *Module, name string, size uint64) node.VDisk {
	t.Helper()
	d, err := m.VDisks().Allocate(diskSpec(name, size))
	check(t, err)
	return d
}

func names(t *testing.T, m *Module) []string {
	t.Helper()
	list, err := m.Storage().ListFilesystems()
	check(t, err)
	out := []string{}
	for _, f := range list {
		out = append(out, f.Name)
	}
	return out
}

// write puts text into a file of dir and makes it durable.
func write(t *testing.T, dir, text string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "data"))
	check(t, err)
	_, err = f.WriteString(text)
	check(t, err)
	check(t, f.Sync())
	check(t, f.Close())
}

func wantData(t *testing.T, dir, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	if err != nil || string(data) != text {
		t.Errorf("the data is %q (%v), want %q", data, err, text)
	}
}

// fill writes to path until it fails or most bytes are written.
func fill(path string, most uint64) (uint64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block, written := make([]byte, mib), uint64(0)
	for i := range block {
		block[i] = byte(i*7 + i>>9)
	}
	for written < most {
		n, err := f.Write(block)
		written += uint64(n)
		if err != nil {
			return written, err
		}
	}
	return written, f.Sync()
}
