package storage

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
)

func fsOf(t *testing.T, m *Module) *btrfs.FS {
	t.Helper()
	f, err := m.pools[0].open()
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestBestQuota wants simple quotas where the kernel has them.
func TestBestQuota(t *testing.T) {
	m := opened(t, newConfig(t))
	if got, want := m.status().Quota, quotaKinds(t)[0]; got != string(want) {
		t.Errorf("the quota is %q, want %q", got, want)
	}
}

func TestPoolKeepsItsQuota(t *testing.T) {
	cfg := newConfig(t)
	cfg.Quota = volume.Qgroup
	m := opened(t, cfg)
	create(t, m, "7-1", 32*mib)
	kill(t, m)
	cfg.Quota = volume.Simple
	m = opened(t, cfg)
	if got := m.status().Quota; got != "qgroup" {
		t.Errorf("the quota is now %q", got)
	}
	wantWhole(t, m)
}

// TestQuotaOff wants limits back after somebody turned quotas off, and the
// data on disk counted.
func TestQuotaOff(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 64*mib)
	if _, err := fill(filepath.Join(f.Path, "data"), 40*mib); err != nil {
		t.Fatal(err)
	}
	_, err := command(t.Context(), "btrfs", "quota", "disable", m.pools[0].path)
	check(t, err)
	m = reopen(t, m)
	if got := m.status().Quota; got != "qgroup" {
		t.Errorf("the quota is now %q", got)
	}
	_, err = command(t.Context(), "btrfs", "quota", "rescan", "-W", m.pools[0].path)
	check(t, err)
	n, err := fill(filepath.Join(f.Path, "more"), 40*mib)
	if !errors.Is(err, unix.EDQUOT) || n > 24*mib {
		t.Errorf("%d more bytes could be written (%v)", n, err)
	}
}

// TestLimitsAreSetRight wants a limit that somebody changed back at what the
// label says.
func TestLimitsAreSetRight(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota = quota
			m := opened(t, cfg)
			f := create(t, m, "7-1", 16*mib)
			id, err := btrfs.SubvolumeID(f.Path)
			check(t, err)
			group := id
			if quota == volume.Simple {
				group = btrfs.GroupID(volume.FamilyLevel, id)
			}
			check(t, fsOf(t, m).Limit(group, math.MaxUint64))
			reopen(t, m)
			if n, err := fill(filepath.Join(f.Path, "data"), 32*mib); !errors.Is(err, unix.EDQUOT) {
				t.Errorf("%d bytes could be written (%v)", n, err)
			}
		})
	}
}

// TestLimitsAreSetRightWhileItRuns wants what somebody did to the quotas under the module to be right again without a restart, for
// file systems and disks, and nothing done to those that are right.
func TestLimitsAreSetRightWhileItRuns(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota, cfg.limitsEvery = quota, 50*time.Millisecond
			m := opened(t, cfg)
			places := map[string]uint64{create(t, m, "7-1", 16*mib).Path: 16 * mib, filepath.Dir(allocate(t, m, "7-2", 16*mib).Path): volume.DiskRoom(16 * mib)}
			for name, harm := range map[string]func(pool *btrfs.FS, id, group uint64){
				"another limit": func(pool *btrfs.FS, _, group uint64) { check(t, pool.Limit(group, 64*mib)) },
				"no limit":      func(pool *btrfs.FS, _, group uint64) { check(t, pool.Limit(group, math.MaxUint64)) },
				"out of its group": func(pool *btrfs.FS, id, group uint64) {
					if id == group {
						return
					}
					_, err := command(t.Context(), "btrfs", "qgroup", "remove", "0/"+strconv.FormatUint(id, 10), "1/"+strconv.FormatUint(id, 10), m.pools[0].path)
					check(t, err)
				},
				"quotas off": func(*btrfs.FS, uint64, uint64) {
					_, err := command(t.Context(), "btrfs", "quota", "disable", m.pools[0].path)
					check(t, err)
				},
			} {
				for path, size := range places {
					id, err := btrfs.SubvolumeID(path)
					check(t, err)
					pool := fsOf(t, m)
					group := id
					if state, err := pool.Quota(); err != nil || state.Kind == btrfs.Simple {
						check(t, err)
						group = btrfs.GroupID(volume.FamilyLevel, id)
					}
					harm(pool, id, group)
					limitedSoon(t, m, path, size, name)
				}
			}
		})
	}
}

// limitedSoon waits until the subvolume at path has the limit again, and the module sees no difference.
func limitedSoon(t *testing.T, m *Module, path string, size uint64, after string) {
	t.Helper()
	id, err := btrfs.SubvolumeID(path)
	check(t, err)
	pool := fsOf(t, m)
	late := time.After(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		group := id
		if m.pools[0].filesystems.Quota() == btrfs.Simple {
			group = btrfs.GroupID(volume.FamilyLevel, id)
		}
		if g, err := pool.ReadGroup(group); err == nil && g.Max == size && m.pools[0].limited() {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			g, err := pool.ReadGroup(group)
			t.Fatalf("%s: %s has the limit %+v (%v), must be %d", after, path, g, err, size)
		}
	}
}

// TestGroupsGo wants quota groups of removed file systems to be gone in the end.
func TestGroupsGo(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota = quota
			m := opened(t, cfg)
			for i := range 10 {
				name := "7-" + strconv.Itoa(i)
				write(t, create(t, m, name, 16*mib).Path, "x")
				check(t, m.Storage().ReleaseFilesystem(name))
				allocate(t, m, name, 16*mib)
				check(t, m.VDisks().Deallocate(name))
			}
			wantClean(t, m)
			m = reboot(t, m)
			groups, err := fsOf(t, m).Groups()
			check(t, err)
			for id := range groups {
				if id != 5 {
					t.Errorf("there is still group %d/%d", btrfs.GroupLevel(id), btrfs.GroupNumber(id))
				}
			}
		})
	}
}

// TestGroupsGoWhileIdle wants the same of a node that does nothing else, also for
// nested subvolumes.
func TestGroupsGoWhileIdle(t *testing.T) {
	cfg := newConfig(t)
	cfg.sweepEvery = 100 * time.Millisecond
	m := opened(t, cfg)
	f := create(t, m, "7-1", 16*mib)
	write(t, f.Path, "x")
	check(t, btrfs.CreateSubvolume(f.Path, "nested"))
	id, err := btrfs.SubvolumeID(f.Path)
	check(t, err)
	inner, err := btrfs.SubvolumeID(filepath.Join(f.Path, "nested"))
	check(t, err)
	check(t, m.Storage().ReleaseFilesystem("7-1"))
	wantClean(t, m)
	pool := fsOf(t, m)
	late := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		groups, err := pool.Groups()
		check(t, err)
		if groups[id] == nil && groups[inner] == nil && groups[btrfs.GroupID(volume.FamilyLevel, id)] == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("there are still groups %v", groups)
		}
	}
}

// TestASweepGoesOn has more groups of nothing than are removed while others wait, and groups that others are in.
func TestASweepGoesOn(t *testing.T) {
	cfg := newConfig(t)
	cfg.sweepEvery = time.Hour
	m := opened(t, cfg)
	pool := fsOf(t, m)
	const first, held = uint64(1) << 40, 10
	group := func(level uint16, i uint64) uint64 { return btrfs.GroupID(level, first+i) }
	for i := range uint64(volume.SweepAtOnce + 6) {
		check(t, pool.CreateGroup(group(volume.FamilyLevel, i)))
	}
	for i := range uint64(held) { // each holds one of the next level, which goes after it
		check(t, pool.CreateGroup(group(volume.FamilyLevel+1, i)))
		check(t, pool.Join(group(volume.FamilyLevel, i), group(volume.FamilyLevel+1, i)))
	}
	left := func() (n int) {
		groups, err := pool.Groups()
		check(t, err)
		for id := range groups {
			if btrfs.GroupNumber(id) >= first {
				n++
			}
		}
		return n
	}
	next, more := m.pools[0].sweep(0)
	if !more || next != group(volume.FamilyLevel, volume.SweepAtOnce) || left() != 6+held {
		t.Errorf("the first round leaves %d and goes on from %d, %t", left(), next, more)
	}
	if next, more = m.pools[0].sweep(next); more || left() != 0 {
		t.Errorf("the second round leaves %d, and goes on from %d, %t", left(), next, more)
	}
	check(t, pool.CreateGroup(group(volume.FamilyLevel, 1)))
	m.sweepAll()
	if left() != 0 {
		t.Errorf("a sweep leaves %d", left())
	}
}

// wantClean waits until the kernel has cleaned up after all that was destroyed.
func wantClean(t *testing.T, m *Module) {
	t.Helper()
	f, err := m.pools[0].open()
	check(t, err)
	defer f.Close()
	late := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		check(t, f.Sync())
		alive, err := f.Subvolumes()
		check(t, err)
		if len(alive) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("there are still subvolumes %v", alive)
		}
	}
}

// TestNestedSubvolumesAreLimited wants the limit to hold for who nests subvolumes, and
// the file system to go with all in it. Making them needs no privilege.
func TestNestedSubvolumesAreLimited(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 16*mib)
	limited := m.status().Quota == string(volume.Simple)
	check(t, os.Chmod(f.Path, 0o777))
	check(t, btrfs.CreateSubvolume(f.Path, "a"))
	check(t, os.Chmod(filepath.Join(f.Path, "a"), 0o777))
	var total uint64
	var last error
	for i := 0; i < 8 && last == nil; i++ {
		inner := filepath.Join(f.Path, "a", strconv.Itoa(i))
		if last = btrfs.CreateSubvolume(filepath.Dir(inner), filepath.Base(inner)); last != nil {
			break
		}
		var n uint64
		n, last = fill(filepath.Join(inner, "data"), 8*mib)
		total += n
	}
	if limited != (errors.Is(last, unix.EDQUOT) && total <= 16*mib) {
		t.Errorf("%d bytes could be written to a file system of %d (%v)", total, 16*mib, last)
	}
	check(t, m.Storage().ReleaseFilesystem("7-1"))
	if left := folderNames(t, m.pools[0].filesystems.Folder()); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
}

// TestLabelsAreOurs wants no user of a file system to be able to change
// its label, owner of the folder or not.
func TestLabelsAreOurs(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 16*mib)
	dir, err := os.Open(f.Path)
	check(t, err)
	defer dir.Close()
	check(t, dir.Chown(65534, 65534))
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			done <- errno
			return
		}
		done <- unix.Fsetxattr(int(dir.Fd()), "trusted.croft.filesystem", []byte(`{"name":"7-1","size":1}`), 0)
	}()
	if err := <-done; !errors.Is(err, unix.EPERM) {
		t.Errorf("setting the label gives %v", err)
	}
	if got := m.status().Pools[0].Reserved; got != 16*mib {
		t.Errorf("reserved are %s", bytesize.Format(got))
	}
}

func TestHundreds(t *testing.T) {
	cfg := newConfig(t)
	cfg.Pools = DefaultPools(2 * gib)
	m := opened(t, cfg)
	const made = 500
	for i := range made {
		create(t, m, "7-"+strconv.Itoa(i), minSize)
	}
	m = reopen(t, m)
	if got := len(names(t, m)); got != made {
		t.Errorf("after a restart there are %d, want %d", got, made)
	}
	for i := range made {
		check(t, m.Storage().ReleaseFilesystem("7-"+strconv.Itoa(i)))
	}
	if got := m.status().Pools[0].Reserved; got != 0 {
		t.Errorf("reserved are %s", bytesize.Format(got))
	}
}
