package diskspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/kerneltest"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/loop"
)

const (
	mib   = 1 << 20
	limit = 64 * mib
	disk  = 512 * mib
)

// TestLimitedSubvolume holds, with each kind of quota, that a folder of a limited subvolume has the limit's space, also when it is full, and a
// folder beside it all of the file system's.
func TestLimitedSubvolume(t *testing.T) {
	for _, kind := range kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			mount := mounted(t)
			f, err := btrfs.Open(mount)
			check(t, err)
			defer f.Close()
			check(t, f.EnableQuota(kind))
			check(t, btrfs.CreateSubvolume(mount, "state"))
			folder := filepath.Join(mount, "state", "images")
			check(t, os.Mkdir(folder, 0o700))
			id, err := btrfs.SubvolumeID(filepath.Join(mount, "state"))
			check(t, err)
			group := id
			if kind == btrfs.Simple {
				group = btrfs.GroupID(1, id)
				check(t, f.CreateGroup(group))
				check(t, f.Join(id, group))
			}
			check(t, f.Limit(group, limit))
			s, err := Of(folder)
			if err != nil || s.Total != limit || s.Free > limit || s.Free < limit-mib {
				t.Errorf("an empty one has %+v, %v", s, err)
			}
			_ = os.WriteFile(filepath.Join(folder, "much"), make([]byte, 2*limit), 0o600) // it ends at the limit
			check(t, f.Sync())
			s, err = Of(folder)
			if err != nil || s.Free > 2*mib || s.Used < limit-2*mib || s.Total != limit {
				t.Errorf("a full one has %+v, %v", s, err)
			}
			s, err = Of(mount)
			if err != nil || s.Total != disk || s.Free < disk/2 {
				t.Errorf("beside it there are %+v, %v", s, err)
			}
		})
	}
}

// TestOtherFileSystems holds that elsewhere the kernel's answer counts.
func TestOtherFileSystems(t *testing.T) {
	var st unix.Statfs_t
	check(t, unix.Statfs("/proc/self", &st))
	s, err := Of("/proc/self")
	if err != nil || s.Total != st.Blocks*uint64(st.Bsize) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Of(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that isn't there has space")
	}
	mount := mounted(t)
	if s, err := Of(mount); err != nil || s.Total != disk || s.Free == 0 {
		t.Errorf("without quotas there are %+v, %v", s, err)
	}
}

func TestWithin(t *testing.T) {
	all := Space{Used: 10, Total: 100, Free: 90}
	for g, want := range map[btrfs.Group]Space{
		{Max: 0, Used: 5}:   all,
		{Max: 200, Used: 5}: all,
		{Max: 50, Used: 5}:  {Used: 5, Total: 50, Free: 45},
		{Max: 50, Used: 60}: {Used: 50, Total: 50, Free: 0},
		{Max: 99, Used: 1}:  {Used: 1, Total: 99, Free: 90},
	} {
		if got := all.within(g); got != want {
			t.Errorf("%+v: %+v, want %+v", g, got, want)
		}
	}
}

// kinds are the quotas that the kernel has: simple ones came with Linux 6.7.
func kinds(t *testing.T) []btrfs.Quota {
	t.Helper()
	if kerneltest.AtLeast(t, 6, 7) {
		return []btrfs.Quota{btrfs.Simple, btrfs.Qgroup}
	}
	return []btrfs.Quota{btrfs.Qgroup}
}

// mounted makes a btrfs of its own and returns its mount point.
func mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "disk.img"), filepath.Join(dir, "mnt")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, disk))
	check(t, os.Mkdir(mount, 0o700))
	if out, err := exec.CommandContext(t.Context(), "mkfs.btrfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a btrfs: %v: %s", err, out)
	}
	device, err := loop.Attach(t.Context(), image)
	check(t, err)
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	err = unix.Mount(device.Path(), mount, "btrfs", unix.MS_NODEV|unix.MS_NOATIME, "")
	check(t, device.Close())
	check(t, err)
	return mount
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
