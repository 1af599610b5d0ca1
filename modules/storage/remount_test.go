package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// spoken is a module's log, read while it runs.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), words)
}

// heard is settled with a log that can be read.
func heard(t *testing.T) (*Module, *spoken) {
	t.Helper()
	m := settled(t)
	kill(t, m)
	log := &spoken{}
	m.cfg.Log = zerolog.New(log)
	return opened(t, m.cfg), log
}

// unseen does several things to a pool's mount, before the module, which hears of
// each at once, can mount the pool again.
func unseen(m *Module, do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// soon waits until ok, much longer than it should take.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.Now().Add(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// TestUnmountedComesBack wants a pool that somebody unmounted to be mounted
// again by itself, in whatever way it went, with all that was in it.
func TestUnmountedComesBack(t *testing.T) {
	for name, unmount := range map[string]func(t *testing.T, m *Module){
		"unmounted": func(t *testing.T, m *Module) { check(t, unix.Unmount(m.pools[0].path, 0)) },
		"unmounted, its device detached, its folder removed": func(t *testing.T, m *Module) {
			device, _ := m.pools[0].mountedFrom()
			check(t, loop.Detach(device)) // takes effect with the unmounting
			check(t, unix.Unmount(m.pools[0].path, 0))
			check(t, os.Remove(m.pools[0].path))
		},
		"unmounted while a file of it is open": func(t *testing.T, m *Module) {
			f, err := os.Open(m.pools[0].filesystems.Place("7-1"))
			check(t, err)
			t.Cleanup(func() { f.Close() })
			check(t, unix.Unmount(m.pools[0].path, unix.MNT_DETACH))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, log := heard(t)
			unseen(m, func() {
				unmount(t, m)
				if status := m.status(); len(status.BrokenPools) != 1 || status.BrokenPools[0].Name != "ssd0" {
					t.Errorf("until then broken are %+v", status.BrokenPools)
				}
			})
			soon(t, "it is mounted again", func() bool { return len(m.status().BrokenPools) == 0 })
			wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
			for _, p := range m.status().Pools {
				if want := map[string]uint64{"ssd0": 1}[p.Name]; p.Remounted != want {
					t.Errorf("%s was mounted again %d times, want %d", p.Name, p.Remounted, want)
				}
			}
			if log.count("it is mounted again") != 1 || log.count("made anew, empty") != 0 {
				t.Errorf("said is %s", log.text.String())
			}
			create(t, m, "7-9", 32*mib)
			if _, mounted, err := mountedAt(m.pools[0].path); err != nil || !mounted {
				t.Errorf("mounted %t, %v", mounted, err)
			}
			wantData(t, create(t, reopen(t, m), "7-1", 32*mib).Path, "kept")
		})
	}
}

// TestUnmountedIsMountedBeforeAChange wants a change not to fail because of
// a pool that only has to be mounted.
func TestUnmountedIsMountedBeforeAChange(t *testing.T) {
	m, _ := heard(t)
	check(t, unix.Unmount(m.pools[0].path, 0))
	wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
	check(t, unix.Unmount(m.pools[0].path, 0))
	check(t, m.Storage().ReleaseFilesystem("7-1"))
}

// TestFailedRemount wants what can't be the pool to be left alone,
// nothing to be made in the empty folder below or in its place, and the pool to
// be back once it can.
func TestFailedRemount(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, m *Module) (repair func())
		cause string
	}{
		"its image is missing": {func(t *testing.T, m *Module) func() {
			image := m.cfg.image("ssd0")
			check(t, os.Rename(image, image+".elsewhere"))
			return func() { check(t, os.Rename(image+".elsewhere", image)) }
		}, "no btrfs is mounted"},
		"another pool's image is in its place": {func(t *testing.T, m *Module) func() {
			image := m.cfg.image("ssd0")
			check(t, os.Rename(image, image+".elsewhere"))
			check(t, sparseFile(image, poolSize))
			check(t, blockdev.Format(t.Context(), image, "ssd0", false))
			return func() { check(t, os.Rename(image+".elsewhere", image)) }
		}, "no btrfs is mounted"},
		"its image is damaged": {func(t *testing.T, m *Module) func() {
			image := m.cfg.image("ssd0")
			old := swap(t, image, 64<<10+0x40, []byte{0xde, 0xad})
			return func() { swap(t, image, 64<<10+0x40, old) }
		}, "no btrfs is mounted"},
		"something else is mounted there": {func(t *testing.T, m *Module) func() {
			check(t, unix.Mount("none", m.pools[0].path, "tmpfs", 0, "size=1m"))
			return func() { check(t, unix.Unmount(m.pools[0].path, 0)) }
		}, "no btrfs is mounted"},
		"another btrfs is mounted there": {func(t *testing.T, m *Module) func() {
			disk, _ := newDisk(t)
			check(t, blockdev.Format(t.Context(), disk, "ssd0", false))
			check(t, mountPool(disk, m.pools[0].path))
			return func() {
				if left := folderNames(t, m.pools[0].path); len(left) != 0 {
					t.Errorf("in it there is %q", left)
				}
				check(t, unix.Unmount(m.pools[0].path, 0))
			}
		}, "another file system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, log := heard(t)
			var repair func()
			unseen(m, func() {
				check(t, unix.Unmount(m.pools[0].path, 0))
				repair = tt.spoil(t, m)
			})
			for range 2 {
				wantBroken(t, m, tt.cause)
				check(t, m.Storage().ReleaseFilesystem("7-2")) // a pool beside it goes on
				second(m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-2", Size: 32 * mib, DiskType: workload.HDD}))
			}
			soon(t, "it is said", func() bool { return log.count("can't be mounted again") > 0 })
			repair()
			soon(t, "it is mounted again", func() bool { return len(m.status().BrokenPools) == 0 })
			wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
			if n := log.count("can't be mounted again"); n != 1 {
				t.Errorf("said %d times why not: %s", n, log.text.String())
			}
		})
	}
}

// TestRemovedBehindItsBack wants a volume that somebody destroyed to be made
// anew when it is asked for, and never in silence.
func TestRemovedBehindItsBack(t *testing.T) {
	m, log := heard(t)
	remove := func() {
		f, err := m.pools[0].open()
		check(t, err)
		defer f.Close()
		id, err := btrfs.SubvolumeID(m.pools[0].filesystems.Place("7-1"))
		check(t, err)
		check(t, f.Destroy(id))
	}
	remove()
	if _, err := m.Storage().InspectFilesystem("7-1"); !errors.Is(err, node.NotExist) {
		t.Errorf("inspecting it gives %v", err)
	}
	if left := folderNames(t, create(t, m, "7-1", 32*mib).Path); len(left) != 0 {
		t.Errorf("in it there is %q", left)
	}
	if log.count("made anew, empty, and what was in it is lost") != 1 {
		t.Errorf("said is %s", log.text.String())
	}
	create(t, m, "7-1", 32*mib)
	create(t, m, "7-3", 32*mib)
	if log.count("made anew") != 1 {
		t.Errorf("said of what was never there: %s", log.text.String())
	}
	remove()
	reopen(t, m)
	if log.count("aren't on the pool") != 1 {
		t.Errorf("after a restart said is %s", log.text.String())
	}
}

// TestAPoolInUseBecomesDirect is of a pool that an earlier croft has mounted, by way of the page cache.
func TestAPoolInUseBecomesDirect(t *testing.T) {
	m := settled(t)
	volume, err := m.Storage().InspectFilesystem("7-1")
	check(t, err)
	kill(t, m)
	device, err := loop.Find(m.cfg.image("ssd0"))
	check(t, err)
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	check(t, err)
	check(t, unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_DIRECT_IO, 0))
	check(t, f.Close())
	if loop.Direct(device) {
		t.Fatal("the device can't be made as an earlier croft did")
	}
	path := filepath.Join(volume.Path, "open")
	open, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	defer open.Close()
	_, err = open.WriteString("before")
	check(t, err)

	log := &spoken{}
	m.cfg.Log = zerolog.New(log)
	opened(t, m.cfg)
	if !loop.Direct(device) || log.count(`"direct":true`) != 2 {
		t.Errorf("direct: %t, the log says it of %d pools of 2", loop.Direct(device), log.count(`"direct":true`))
	}
	_, err = open.WriteString(" and after")
	check(t, err)
	check(t, open.Sync())
	if data, err := os.ReadFile(path); err != nil || string(data) != "before and after" {
		t.Errorf("the file holds %q (%v)", data, err)
	}
}
