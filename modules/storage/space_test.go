package storage

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
	"github.com/croft-edge/croft/pkg/workload"
)

// newSpace is that of a new pool of size bytes.
func newSpace(size uint64) btrfs.Space {
	return btrfs.Space{Total: size, Layout: btrfs.Layout{Mixed: true, Copies: 1}}
}

// TestPromisesAreKept fills all that a pool promises: each file system must
// end at its limit, not at the pool's end.
func TestPromisesAreKept(t *testing.T) {
	for _, size := range []uint64{gib / 2, gib + gib/2} {
		t.Run(bytesize.Format(size), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Pools = DefaultPools(size)
			m := opened(t, cfg)
			free := offered(newSpace(size))
			allocate(t, m, "8-1", 64*mib)
			half := (free - volume.DiskRoom(64*mib)) / 2 / mib * mib
			for _, name := range []string{"7-1", "7-2"} {
				f := create(t, m, name, half)
				n, err := fill(filepath.Join(f.Path, "data"), half+8*mib)
				if !errors.Is(err, unix.EDQUOT) || n < half-4*mib {
					t.Errorf("%s of %s took %s (%v)", name, bytesize.Format(half), bytesize.Format(n), err)
				}
			}
			_, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-3", Size: 10 * mib, DiskType: workload.SSD})
			if !errors.Is(err, node.NoSpace) {
				t.Errorf("one more gives %v", err)
			}
			// With the pool this full everything can still be taken away.
			check(t, m.Storage().ReleaseFilesystem("7-1"))
			check(t, m.VDisks().Deallocate("8-1"))
			m = reboot(t, m)
			if got := m.status().Pools[0].Reserved; got != half {
				t.Errorf("reserved are %s, want %s", bytesize.Format(got), bytesize.Format(half))
			}
		})
	}
}

// TestLargePromisesAreKept does so with larger pools, where room is taken
// without anything being written.
func TestLargePromisesAreKept(t *testing.T) {
	for _, size := range []uint64{2*gib + 4*mib, 3 * gib, 8 * gib} {
		t.Run(bytesize.Format(size), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Pools = DefaultPools(size)
			m := opened(t, cfg)
			half := offered(newSpace(size)) / 2 / mib * mib
			for _, name := range []string{"7-1", "7-2"} {
				f, err := os.Create(filepath.Join(create(t, m, name, half).Path, "data"))
				check(t, err)
				taken := uint64(0)
				for err == nil {
					if err = unix.Fallocate(int(f.Fd()), 0, int64(taken), int64(16*mib)); err == nil {
						taken += 16 * mib
					}
				}
				check(t, f.Close())
				if !errors.Is(err, unix.EDQUOT) || taken < half-20*mib {
					t.Errorf("%s of %s took %s (%v)", name, bytesize.Format(half), bytesize.Format(taken), err)
				}
			}
		})
	}
}

// onTmpfs is a config whose state lies on a file system of its own of size bytes.
func onTmpfs(t *testing.T, options string) Config {
	t.Helper()
	cfg := newConfig(t)
	cfg.Mounts = filepath.Join(cfg.State, "mnt")
	check(t, unix.Mount("none", cfg.State, "tmpfs", 0, options))
	return cfg
}

// TestHostTooSmall wants an image that could never be filled not to be made.
func TestHostTooSmall(t *testing.T) {
	m := opened(t, onTmpfs(t, "size=300m"))
	status := m.status()
	if len(status.BrokenPools) != 1 || !strings.Contains(status.BrokenPools[0].Cause, "cannot make an image of 512 MiB: free are ") {
		t.Errorf("broken are %+v", status.BrokenPools)
	}
	if left := folderNames(t, m.cfg.poolsDir()); len(left) != 0 {
		t.Errorf("there is %q", left)
	}
}

// TestHostFull lets others use up the room below a sparse image.
func TestHostFull(t *testing.T) {
	cfg := onTmpfs(t, "size=600m")
	m := opened(t, cfg)
	f := create(t, m, "7-1", 200*mib)
	write(t, f.Path, "kept")
	junk := filepath.Join(cfg.State, "junk")
	if _, err := fill(junk, gib); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the host gives %v", err)
	}
	if _, err := fill(filepath.Join(f.Path, "more"), 150*mib); err == nil {
		t.Error("150 MiB could be written to a disk that is full")
	}
	for what, err := range map[string]error{
		"creating":   second(m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-2", Size: 32 * mib, DiskType: workload.SSD})),
		"allocating": second(m.VDisks().Allocate(diskSpec("8-2", 32*mib))),
		"releasing":  m.Storage().ReleaseFilesystem("7-1"),
	} {
		if k := node.KindOf(err); err != nil && k != node.Transient && k != node.NoSpace {
			t.Errorf("%s gives %v (kind %s)", what, err, k)
		}
	}
	// When there is room again, and after a reboot, all is well.
	check(t, os.Remove(junk))
	m = reboot(t, m)
	wantWhole(t, m)
}

// TestNoInodes wants a name that can't be noted not to be made.
func TestNoInodes(t *testing.T) {
	cfg := onTmpfs(t, "size=600m,nr_inodes=20")
	m := opened(t, cfg)
	for i := range 30 {
		f, err := os.Create(filepath.Join(cfg.State, "junk"+string(rune('a'+i))))
		if err != nil {
			break
		}
		check(t, f.Close())
	}
	_, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: workload.SSD})
	if !errors.Is(err, node.NoSpace) {
		t.Errorf("creating gives %v", err)
	}
	if got := names(t, m); len(got) != 0 {
		t.Errorf("there are %q", got)
	}
	wantNothingHalf(t, m.cfg, "no inodes")
}

func TestNoSpaceText(t *testing.T) {
	ssd, hdd := &pool{name: "a", diskType: workload.SSD}, &pool{name: "b", diskType: workload.HDD}
	cases := []struct {
		size uint64
		pool string
		all  []candidate
		want string
	}{
		{10 * gib, "", []candidate{{ssd, 3*gib + gib/2}}, "cannot create filesystem 7-1: needs 10 GiB, free are 3.5 GiB on SSD pools"},
		{gib, "", []candidate{{ssd, 0}}, "cannot create filesystem 7-1: needs 1 GiB, free are 0 bytes on SSD pools"},
		{gib, "a", []candidate{{ssd, 5}}, "cannot create filesystem 7-1: needs 1 GiB, free are 5 bytes on pool a"},
		{8 * gib, "", []candidate{{ssd, 5 * gib}, {ssd, 4 * gib}}, "cannot create filesystem 7-1: needs 8 GiB, free are 9 GiB on SSD pools, the most on one is 5 GiB"},
		{math.MaxUint64, "", []candidate{{ssd, 1 << 63}, {hdd, math.MaxUint64}}, "cannot create filesystem 7-1: needs 16777215.9 TiB, free are 16777215.9 TiB on HDD and SSD pools, the most on one is 16777215.9 TiB"},
	}
	for _, c := range cases {
		err := noSpace(wish{what: "filesystem 7-1", size: c.size, pool: c.pool}, c.all)
		if err.Error() != c.want || !errors.Is(err, node.NoSpace) {
			t.Errorf("the error is\n%v, want\n%s", err, c.want)
		}
	}
}

// TestOfferedNeverWraps wants no arithmetic on sizes to come out too large.
func TestOfferedNeverWraps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, a, b := rapid.Uint64().Draw(t, "total"), rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		layout := btrfs.Layout{Mixed: rapid.Bool().Draw(t, "mixed"), Copies: rapid.Uint64Range(0, 2).Draw(t, "copies")}
		if o := offered(btrfs.Space{Total: total, Layout: layout}); o > total {
			t.Fatalf("of %d bytes %d are offered", total, o)
		}
		if s := saturate.Add(a, b); s < a || s < b {
			t.Fatalf("%d + %d = %d", a, b, s)
		}
		if s := saturate.Sub(a, b); s > a || b <= a && s != a-b {
			t.Fatalf("%d - %d = %d", a, b, s)
		}
	})
}
