package storage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestReboot(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota = quota
			m := opened(t, cfg)
			f := create(t, m, "7-1", 32*mib)
			write(t, f.Path, "kept")
			disk := allocate(t, m, "8-1", 16*mib)
			m = reboot(t, m)
			wantData(t, f.Path, "kept")
			wantWhole(t, m)
			status := m.status()
			if status.Quota != string(quota) || status.Pools[0].Reserved != 32*mib+volume.DiskRoom(disk.Size) {
				t.Errorf("after a reboot the status is %+v", status)
			}
			if again := create(t, m, "7-1", 32*mib); again.Path != f.Path {
				t.Errorf("after a reboot it is at %s, before at %s", again.Path, f.Path)
			}
		})
	}
}

// TestPowerCut mounts a copy of what had reached the disk at some moment.
func TestPowerCut(t *testing.T) {
	m := opened(t, newConfig(t))
	old := create(t, m, "7-1", 32*mib)
	write(t, old.Path, "old")
	f, err := m.pools[0].open()
	check(t, err)
	check(t, f.Sync())
	check(t, f.Close())
	// The young one was never synced as a whole; its user did so with one file.
	young := create(t, m, "7-2", 32*mib)
	write(t, young.Path, "young")
	image := m.cfg.image("ssd0")
	_, err = command(t.Context(), "cp", "--sparse=always", image, image+".copy")
	check(t, err)
	kill(t, m)
	check(t, Detach(t.Context(), m.cfg))
	check(t, os.Rename(image+".copy", image))
	m = opened(t, m.cfg)
	wantData(t, old.Path, "old")
	wantData(t, young.Path, "young")
	wantWhole(t, m)
}

func TestSideBySide(t *testing.T) {
	a, b := opened(t, newConfig(t)), opened(t, newConfig(t))
	fa, fb := create(t, a, "7-1", 32*mib), create(t, b, "7-1", 64*mib)
	write(t, fa.Path, "a")
	write(t, fb.Path, "b")
	check(t, a.Storage().ReleaseFilesystem("7-1"))
	wantData(t, fb.Path, "b")
	if got := names(t, b); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("the other has %q", got)
	}
}

func TestSameState(t *testing.T) {
	cfg := newConfig(t)
	m := opened(t, cfg)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, node.Busy) {
		t.Errorf("a second module gives %v", err)
	}
	if err := Detach(t.Context(), cfg); !errors.Is(err, node.Busy) {
		t.Errorf("detaching under a module gives %v", err)
	}
	check(t, m.Close(t.Context()))
	check(t, m.Close(t.Context()))
	opened(t, cfg)
}

func TestClosed(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 32*mib)
	uses := m.Storage().Monitor(t.Context())
	check(t, m.Close(t.Context()))
	for range uses {
	}
	write(t, f.Path, "a workload goes on")
	if err := m.Storage().ReleaseFilesystem("7-1"); !errors.Is(err, node.Transient) {
		t.Errorf("releasing gives %v", err)
	}
	if _, err := m.VDisks().Allocate(diskSpec("8-1", 16*mib)); !errors.Is(err, node.Transient) {
		t.Errorf("allocating gives %v", err)
	}
}

// Mounts in another mount namespace, as a container's, don't show in the node's.
func TestMountedPoolIsNotDetached(t *testing.T) {
	for name, cfg := range map[string]func(*testing.T) Config{"loop file": newConfig, "disk": func(t *testing.T) Config {
		_, cfg := newDisk(t)
		cfg.Pools[0].Type = workload.SSD
		return cfg
	}} {
		t.Run(name, func(t *testing.T) { staysMounted(t, cfg(t)) })
	}
}

func staysMounted(t *testing.T, cfg Config) {
	m := opened(t, cfg)
	create(t, m, "7-1", 32*mib)
	check(t, m.Close(t.Context()))
	runtime.LockOSThread() // the holder's signal comes when the thread ends
	defer runtime.UnlockOSThread()
	holder := holdsMounts(t)
	for range 2 {
		if err := Detach(t.Context(), m.cfg); !errors.Is(err, node.Busy) || strings.Count(err.Error(), "container down") != 1 {
			t.Fatalf("detaching gives %v", err)
		}
	}
	check(t, holder.Process.Kill())
	holder.Wait()
	check(t, Detach(t.Context(), m.cfg))
	if got := names(t, opened(t, m.cfg)); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("there are %q", got)
	}
}

// What begins in a mount namespace of its own has the node's mounts for a moment.
func TestDetachWaitsForUnmount(t *testing.T) {
	m := opened(t, newConfig(t))
	check(t, m.Close(t.Context()))
	runtime.LockOSThread() // the holder's signal comes when the thread ends
	defer runtime.UnlockOSThread()
	holder := holdsMounts(t)
	killed := make(chan error, 1)
	go func() {
		for {
			_, mounted, err := mountedAt(m.cfg.mount("ssd0"))
			if err != nil || !mounted {
				killed <- errors.Join(err, holder.Process.Kill())
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	check(t, Detach(t.Context(), m.cfg))
	check(t, <-killed)
}

// holdsMounts starts a process that has all that is mounted mounted too, where nobody else sees it.
func holdsMounts(t *testing.T) *exec.Cmd {
	t.Helper()
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	check(t, holder.Start())
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	return holder
}

func TestDetachAndDestroy(t *testing.T) {
	cfg := newConfig(t)
	check(t, Destroy(t.Context(), cfg))
	m := opened(t, cfg)
	f := create(t, m, "7-1", 32*mib)
	write(t, f.Path, "x")
	check(t, m.Close(t.Context()))
	file, err := os.Open(filepath.Join(f.Path, "data"))
	check(t, err)
	if err := Destroy(t.Context(), cfg); !errors.Is(err, node.Busy) {
		t.Errorf("with a file open destroying gives %v", err)
	}
	check(t, file.Close())
	wantData(t, f.Path, "x")
	check(t, Detach(t.Context(), cfg))
	check(t, Detach(t.Context(), cfg))
	image := m.cfg.image("ssd0")
	if _, err := loop.Find(image); !errors.Is(err, node.NotExist) {
		t.Errorf("the image is still attached: %v", err)
	}
	m = opened(t, cfg)
	wantData(t, f.Path, "x")
	check(t, m.Close(t.Context()))
	check(t, os.WriteFile(filepath.Join(cfg.State, "not ours"), nil, 0o600))
	check(t, Destroy(t.Context(), cfg))
	check(t, Destroy(t.Context(), cfg))
	if left := folderNames(t, cfg.State); !slices.Equal(left, []string{"not ours"}) {
		t.Errorf("left are %q", left)
	}
}

// TestDestroyOne wants the pools that aren't named to stay, mounted and all.
func TestDestroyOne(t *testing.T) {
	m := settled(t)
	kill(t, m)
	one := m.cfg
	one.Pools = m.cfg.Pools[1:]
	check(t, Detach(t.Context(), one))
	_, ssd, err := mountedAt(m.cfg.mount("ssd0"))
	check(t, err)
	_, hdd, err := mountedAt(m.cfg.mount("hdd0"))
	check(t, err)
	if !ssd || hdd {
		t.Errorf("ssd0 is mounted: %v, hdd0: %v", ssd, hdd)
	}
	check(t, Destroy(t.Context(), one))
	if got, want := folderNames(t, m.cfg.poolsDir()), []string{"ssd0.img", "ssd0.index", "ssd0.json"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	m = opened(t, m.cfg)
	wantData(t, create(t, m, "7-1", 32*mib).Path, "kept")
	if got := names(t, m); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("there are %q", got)
	}
}

// TestDestroyDisk wants a disk's data to stay.
func TestDestroyDisk(t *testing.T) {
	_, cfg := newDisk(t)
	m := opened(t, cfg)
	write(t, onDisk(t, m).Path, "kept")
	check(t, m.Close(t.Context()))
	check(t, Destroy(t.Context(), cfg))
	if left := folderNames(t, cfg.State); !slices.Equal(left, []string{"disk"}) {
		t.Errorf("left are %q", left)
	}
	wantData(t, onDisk(t, opened(t, cfg)).Path, "kept")
}

// TestStillAttached adopts an image whose device outlived its mount, as when
// somebody else's mount namespace held it.
func TestStillAttached(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 32*mib)
	write(t, f.Path, "kept")
	device, err := loop.Attach(t.Context(), m.cfg.image("ssd0"))
	check(t, err)
	defer device.Close()
	kill(t, m)
	check(t, unix.Unmount(m.pools[0].path, 0))
	m = opened(t, m.cfg)
	wantData(t, f.Path, "kept")
	if got := m.status().Pools[0].Devices; !slices.Equal(got, []string{device.Path()}) {
		t.Errorf("the pool is on %q, its image was on %s", got, device.Path())
	}
}

// TestNotOurs wants things without a label to be neither listed nor touched.
func TestNotOurs(t *testing.T) {
	m := opened(t, newConfig(t))
	p := m.pools[0]
	f := create(t, m, "7-1", 32*mib)
	write(t, f.Path, "ours")
	_, err := command(t.Context(), "btrfs", "subvolume", "snapshot", f.Path, p.filesystems.Place("backup"))
	check(t, err)
	_, err = command(t.Context(), "btrfs", "subvolume", "create", p.filesystems.Place("7-2"))
	check(t, err)
	write(t, p.filesystems.Place("7-2"), "theirs")
	check(t, os.WriteFile(p.disks.Place("8-1"), []byte("theirs"), 0o600))
	m = reopen(t, m)
	p = m.pools[0]
	if got := names(t, m); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("listed are %q", got)
	}
	if got := m.status().Pools[0].Reserved; got != 32*mib {
		t.Errorf("reserved are %s", bytesize.Format(got))
	}
	for _, name := range []string{"7-2", "backup"} {
		if err := m.Storage().ReleaseFilesystem(name); !errors.Is(err, node.NotExist) {
			t.Errorf("releasing %s gives %v", name, err)
		}
	}
	_, err = m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-2", Size: 32 * mib, DiskType: p.diskType})
	if !errors.Is(err, node.Exist) {
		t.Errorf("creating 7-2 gives %v", err)
	}
	if _, err := m.VDisks().Allocate(diskSpec("8-1", 16*mib)); !errors.Is(err, node.Exist) {
		t.Errorf("allocating 8-1 gives %v", err)
	}
	wantData(t, p.filesystems.Place("7-2"), "theirs")
	wantData(t, p.filesystems.Place("backup"), "ours")
	if got := folderNames(t, p.disks.Folder()); !slices.Equal(got, []string{"8-1"}) {
		t.Errorf("vdisks are %q", got)
	}
	if got := folderNames(t, filepath.Join(m.cfg.indexOf(p.name), "volumes")); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("the index has %q", got)
	}
}

// On a volume lie files of containers, whose root is the node's there.
func TestSetIDFilesAndDevicesOfAPoolDoNothing(t *testing.T) {
	cfg := newConfig(t)
	m := opened(t, cfg)
	flags := func() uint64 {
		var fs unix.Statfs_t
		check(t, unix.Statfs(m.pools[0].path, &fs))
		return uint64(fs.Flags) & (unix.ST_NOSUID | unix.ST_NODEV)
	}
	if got := flags(); got != unix.ST_NOSUID|unix.ST_NODEV {
		t.Errorf("it is mounted with %#x", got)
	}
	// An earlier version has left it mounted otherwise.
	kill(t, m)
	check(t, unix.MountSetattr(unix.AT_FDCWD, m.pools[0].path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NOSUID}))
	if flags()&unix.ST_NOSUID != 0 {
		t.Fatal("the test can't mount it otherwise")
	}
	m = opened(t, cfg)
	if got := flags(); got != unix.ST_NOSUID|unix.ST_NODEV {
		t.Errorf("adopted, it is mounted with %#x", got)
	}
}
