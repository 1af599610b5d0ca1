package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// newDisk is a block device that is empty, and a config of a node that has it.
func newDisk(t *testing.T) (string, Config) {
	t.Helper()
	cfg := newConfig(t)
	path := filepath.Join(cfg.State, "disk")
	check(t, sparseFile(path, poolSize))
	d, err := loop.Attach(t.Context(), path)
	check(t, err)
	t.Cleanup(func() { d.Close() })
	cfg.Pools = []PoolSpec{{Disk: d.Path()}}
	return d.Path(), cfg
}

// hdd makes one volume on the disk's pool, whatever its type.
func onDisk(t *testing.T, m *Module) node.Filesystem {
	t.Helper()
	status := m.status()
	if len(status.Pools) != 1 || len(status.BrokenDevices)+len(status.BrokenPools) != 0 {
		t.Fatalf("the status is %+v", status)
	}
	f, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: status.Pools[0].DiskType})
	check(t, err)
	return f
}

// wantRefused checks that the disk can't be used for that cause, and isn't changed.
func wantRefused(t *testing.T, cfg Config, cause string) {
	t.Helper()
	disk := cfg.Pools[0].Disk
	before := edges(t, disk)
	m := opened(t, cfg)
	status := m.status()
	if len(status.Pools) != 0 || len(status.BrokenDevices) != 1 {
		t.Fatalf("the status is %+v", status)
	}
	if d := status.BrokenDevices[0]; d.Path != disk || !strings.Contains(d.Cause, cause) {
		t.Errorf("the broken device is %+v, want it because of %q", d, cause)
	}
	if edges(t, disk) != before {
		t.Error("the disk was changed")
	}
	check(t, m.Close(t.Context()))
}

// edges is the content of a disk's beginning and end.
func edges(t *testing.T, disk string) string {
	t.Helper()
	f, err := os.Open(disk)
	check(t, err)
	defer f.Close()
	b := make([]byte, 4*mib)
	_, err = f.ReadAt(b[:2*mib], 0)
	check(t, err)
	_, err = f.ReadAt(b[2*mib:], int64(poolSize-2*mib))
	check(t, err)
	return string(b)
}

func TestEmptyDisk(t *testing.T) {
	disk, cfg := newDisk(t)
	m := opened(t, cfg)
	f := onDisk(t, m)
	write(t, f.Path, "kept")
	p := m.status().Pools[0]
	want, err := blockdev.Type(disk)
	check(t, err)
	if p.DiskType != want || len(p.Devices) != 1 || p.Devices[0] != disk || !strings.HasPrefix(p.Name, strings.ToLower(string(want))+"-") {
		t.Errorf("the pool is %+v, the disk %s of type %s", p, disk, want)
	}
	kill(t, m)
	check(t, unix.Unmount(p.Path, 0))
	// The flag may stay on the command line for ever.
	cfg.WipeDisks = []string{disk}
	m = opened(t, cfg)
	wantData(t, onDisk(t, m).Path, "kept")
	if again := m.status().Pools[0].Name; again != p.Name {
		t.Errorf("the pool is now %s, before it was %s", again, p.Name)
	}
	wantData(t, onDisk(t, reopen(t, m)).Path, "kept")
}

func TestDiskTypeByHand(t *testing.T) {
	for _, want := range []workload.DeviceType{workload.SSD, workload.HDD} {
		disk, cfg := newDisk(t)
		spec, err := ParseDisk(strings.ToLower(string(want)) + ":" + disk)
		check(t, err)
		cfg.Pools = []PoolSpec{spec}
		if f := onDisk(t, opened(t, cfg)); f.DiskType != want {
			t.Errorf("it is on %s, want %s", f.DiskType, want)
		}
	}
}

func TestUsedDisks(t *testing.T) {
	tool := func(name string, args ...string) func(*testing.T, string) {
		return func(t *testing.T, disk string) {
			_, err := command(t.Context(), name, append(args, disk)...)
			check(t, err)
		}
	}
	bytesAt := func(at int64) func(*testing.T, string) {
		return func(t *testing.T, disk string) { swap(t, disk, at, []byte("somebody's data")) }
	}
	cases := []struct {
		name  string
		use   func(t *testing.T, disk string)
		cause string
	}{
		{"btrfs", tool("mkfs.btrfs", "-q", "-L", "mine"), "it holds btrfs with label mine; name it with --wipe-disk"},
		{"swap", tool("mkswap"), "it holds swap"},
		{"partitions", func(t *testing.T, disk string) {
			mbr := make([]byte, 512)
			// One partition of type Linux, from sector 2048, of 10000 sectors.
			copy(mbr[446:], []byte{0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0x10, 0x27, 0, 0})
			mbr[510], mbr[511] = 0x55, 0xaa
			swap(t, disk, 0, mbr)
		}, "it holds a partition table (dos)"},
		{"data at the start", bytesAt(1000), "data of unknown form at byte 1000;"},
		{"data in a partition whose table is lost", bytesAt(int64(mib + kib)), "data of unknown form at byte 1049600;"},
		{"file system in a partition whose table is lost", tool("mkfs.ext4", "-q", "-E", "offset=1048576"), "data of unknown form at byte 1049600;"},
		{"data at the end", bytesAt(int64(poolSize) - 100), "data of unknown form at byte 536870812;"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			disk, cfg := newDisk(t)
			c.use(t, disk)
			wantRefused(t, cfg, c.cause)
			cfg.WipeDisks = []string{"/dev/another", disk}
			write(t, onDisk(t, opened(t, cfg)).Path, "new")
		})
	}
}

// TestDamagedDiskPool wants a pool that was made here never to be formatted
// again, whatever the flags say.
func TestDamagedDiskPool(t *testing.T) {
	disk, cfg := newDisk(t)
	m := opened(t, cfg)
	f := onDisk(t, m)
	write(t, f.Path, "kept")
	kill(t, m)
	check(t, Detach(t.Context(), cfg))
	old := swap(t, disk, 64*1024+0x40, make([]byte, 8))
	cfg.WipeDisks = []string{disk}
	wantRefused(t, cfg, "isn't found there any more; it is not formatted again")
	m = opened(t, cfg)
	if status := m.status(); len(status.BrokenPools) != 1 || status.BrokenPools[0].Name != f.Pool {
		t.Errorf("broken are %+v, want %s", status.BrokenPools, f.Pool)
	}
	if err := m.Storage().ReleaseFilesystem("7-1"); !errors.Is(err, node.Transient) {
		t.Errorf("releasing what lies on it gives %v", err)
	}
	kill(t, m)
	swap(t, disk, 64*1024+0x40, old)
	wantData(t, onDisk(t, opened(t, cfg)).Path, "kept")
}

func TestMissingDisk(t *testing.T) {
	disk, cfg := newDisk(t)
	link := filepath.Join(cfg.State, "by-name")
	check(t, os.Symlink(disk, link))
	cfg.Pools[0].Disk = link
	m := opened(t, cfg)
	f := onDisk(t, m)
	write(t, f.Path, "kept")
	kill(t, m)
	check(t, unix.Unmount(m.pools[0].path, 0))
	check(t, os.Remove(link))
	m = opened(t, cfg)
	status := m.status()
	if len(status.BrokenDevices) != 1 || status.BrokenDevices[0].Path != link || len(status.BrokenPools) != 1 || status.BrokenPools[0].Name != f.Pool {
		t.Errorf("the status is %+v", status)
	}
	kill(t, m)
	check(t, os.Symlink(disk, link))
	wantData(t, onDisk(t, opened(t, cfg)).Path, "kept")
}

func TestDiskInUse(t *testing.T) {
	disk, cfg := newDisk(t)
	check(t, blockdev.Format(t.Context(), disk, "ssd-12345678", false))
	elsewhere := filepath.Join(cfg.State, "elsewhere")
	check(t, mountPool(disk, elsewhere))
	wantRefused(t, cfg, "it is mounted on "+elsewhere)
	check(t, unix.Unmount(elsewhere, 0))
	// Now it is a pool of a node that lost its state: adopted.
	if p := opened(t, cfg).status().Pools; len(p) != 1 || p[0].Name != "ssd-12345678" {
		t.Errorf("the pools are %+v", p)
	}
}

func TestMountedForeignDisk(t *testing.T) {
	disk, cfg := newDisk(t)
	_, err := command(t.Context(), "mkfs.btrfs", "-q", disk)
	check(t, err)
	elsewhere := filepath.Join(cfg.State, "elsewhere")
	check(t, mountPool(disk, elsewhere))
	cfg.WipeDisks = []string{disk}
	wantRefused(t, cfg, "cannot use disk")
}

func TestDiskOfAnotherName(t *testing.T) {
	disk, cfg := newDisk(t)
	check(t, blockdev.Format(t.Context(), disk, "one", false))
	cfg.Pools[0].Name = "two"
	wantRefused(t, cfg, "it holds pool one, not two")
	cfg.Pools[0].Name = ""
	cfg.Pools = append(cfg.Pools, PoolSpec{Name: "one", LoopSize: poolSize})
	m := opened(t, cfg)
	if status := m.status(); len(status.BrokenDevices) != 1 || !strings.Contains(status.BrokenDevices[0].Cause, "there is another pool one") {
		t.Errorf("the status is %+v", status)
	}
}

func TestNotADisk(t *testing.T) {
	cfg := newConfig(t)
	file := filepath.Join(cfg.State, "file")
	check(t, sparseFile(file, poolSize))
	cfg.Pools = []PoolSpec{{Type: workload.SSD, Disk: file}}
	wantRefused(t, cfg, "it isn't a block device")
	_, err := blockdev.Type(file)
	if err == nil {
		t.Error("a file has a disk type")
	}
	if _, err := btrfs.ReadSuper(file); !errors.Is(err, node.NotExist) {
		t.Errorf("the file has a superblock now: %v", err)
	}
}
