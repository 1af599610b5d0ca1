package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
	"github.com/croft-edge/croft/pkg/workload"
)

// What the parent tells the process that is going to die.
const (
	envState = "CROFT_TEST_STATE"
	envStep  = "CROFT_TEST_STEP"
	envDisks = "CROFT_TEST_DISKS"
)

// TestMain is also the program that dies at a step.
func TestMain(m *testing.M) {
	if state := os.Getenv(envState); state != "" {
		if err := dieAt(state, os.Getenv(envStep), os.Getenv(envDisks)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dieAt runs the story on state, prints each step, and is killed at the one of
// that number.
func dieAt(state, step, disks string) error {
	last, err := strconv.Atoi(step)
	if err != nil {
		return err
	}
	cfg := Config{State: state, Pools: DefaultPools(poolSize)}
	n := 0
	cfg.hook = func(name string) error {
		if n == last {
			return unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		n++
		fmt.Println(name)
		return nil
	}
	if disks != "" {
		cfg.Mounts, cfg.Pools = filepath.Join(state, "run"), onDisks(strings.Split(disks, ",")...)
		_, err := PrepareState(context.Background(), cfg, making())
		return err
	}
	return story(cfg)
}

// story makes, resizes and removes one of everything.
func story(cfg Config) error {
	ctx, m, err := openForStory(cfg)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	storage, disks := m.Storage(), m.VDisks()
	for _, name := range []string{"7-1", "7-2"} {
		if err := sized(storage, name, 24*mib); err != nil {
			return err
		}
	}
	for _, size := range []uint64{48 * mib, 32 * mib} {
		if _, err := storage.ResizeFilesystem("7-1", size); err != nil {
			return err
		}
	}
	if err := storyOfDisks(disks); err != nil {
		return err
	}
	return storage.ReleaseFilesystem("7-2")
}

// storyOfDisks makes two disks, claims, writes and grows one, and removes the other. What a
// crash left of it is no hindrance: a disk is never smaller than before.
func storyOfDisks(disks node.VDisks) error {
	const size, grown = 16 * mib, 32 * mib
	d, err := disks.Inspect("8-1")
	if errors.Is(err, node.NotExist) {
		d, err = disks.Allocate(diskSpec("8-1", size))
	}
	if err != nil {
		return err
	}
	if d.Used < mib { // not after a crash
		if err := stamp(d.Path, 5*mib); err != nil {
			return err
		}
	}
	spec := node.VDiskSpec{Name: "8-1", Size: d.Size, Hash: storyHash, AdoptUnlabelled: true}
	for _, spec.Size = range []uint64{d.Size, grown, grown} {
		if d, err = disks.Allocate(spec); err != nil {
			return err
		}
	}
	if err := wantStamp(d.Path, 5*mib); err != nil {
		return err
	}
	if err := stamp(d.Path, grown-mib); err != nil {
		return err
	}
	if _, err := disks.Allocate(diskSpec("8-2", size)); err != nil {
		return err
	}
	return disks.Deallocate("8-2")
}

// storyHash is the hash of the disk of the story.
const storyHash = "5ca1ab1e00000000000000000000000000000000000000000000000000000000"

// stamp writes a MiB that begins with a mark to an image, and makes it durable.
func stamp(path string, at uint64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	data := make([]byte, mib)
	copy(data, "kept")
	_, err = f.WriteAt(data, int64(at))
	return errors.Join(err, f.Sync(), f.Close())
}

func wantStamp(path string, at uint64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	data := make([]byte, 4)
	_, err = f.ReadAt(data, int64(at))
	if err = errors.Join(err, f.Close()); err == nil && string(data) != "kept" {
		err = fmt.Errorf("at %d the image holds %q", at, data)
	}
	return err
}

// sized makes a file system, or gives the one that is there that size.
func sized(storage node.Storage, name string, size uint64) error {
	_, err := storage.ResizeFilesystem(name, size)
	if errors.Is(err, node.NotExist) {
		_, err = storage.CreateFilesystem(node.FilesystemSpec{Name: name, Size: size, DiskType: workload.SSD})
	}
	return err
}

// TestKilledAtEveryStep kills a process at each durable step of the story, and
// lets another finish it.
func TestKilledAtEveryStep(t *testing.T) {
	steps := die(t, newConfig(t), -1)
	if len(steps) < 36 {
		t.Fatalf("the story has only the steps %q", steps)
	}
	t.Logf("%d steps: %q", len(steps), steps)
	for i, step := range steps {
		t.Run(fmt.Sprintf("%02d %s", i, step), func(t *testing.T) {
			cfg := newConfig(t)
			if done := die(t, cfg, i); len(done) != i {
				t.Fatalf("it died after %d steps, not %d", len(done), i)
			}
			m := opened(t, cfg)
			wantWhole(t, m)
			check(t, m.Close(t.Context()))
			check(t, story(cfg))
			m = opened(t, cfg)
			wantWhole(t, m)
			wantEnd(t, m)
		})
	}
}

// die runs the story in another process until the step of that number, and
// returns the steps before it.
func die(t *testing.T, cfg Config, step int) []string {
	t.Helper()
	return dieOn(t, cfg, step, "")
}

// dieOn prepares the state volume on these disks instead, if there are any.
func dieOn(t *testing.T, cfg Config, step int, disks string) []string {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), envState+"="+cfg.State, envStep+"="+strconv.Itoa(step), envDisks+"="+disks)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && !exit.Exited()
	if killed != (step >= 0) || err != nil && !killed {
		t.Fatalf("the process ended with %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")[:strings.Count(string(out), "\n")]
}

// TestFailsAtEveryStep lets each durable step of the story fail, and wants
// nothing left of the call that met it.
func TestFailsAtEveryStep(t *testing.T) {
	broken := errors.New("no more")
	for i := 0; ; i++ {
		cfg, n, met := newConfig(t), 0, ""
		cfg.hook = func(step string) error {
			if n++; n == i+1 {
				met = step
				return broken
			}
			return nil
		}
		err := story(cfg)
		if met == "" {
			check(t, err)
			t.Logf("%d steps", i)
			break
		}
		if err == nil {
			t.Errorf("step %q failed, and nobody said so", met)
		}
		cfg.hook = nil
		if strings.Contains(met, "image") || met == "mark pool" {
			wantNoImage(t, cfg, met)
		} else if !strings.HasPrefix(met, "forget") && met != "destroy subvolume" {
			wantNothingHalf(t, cfg, met)
		}
		m := opened(t, cfg)
		wantWhole(t, m)
		check(t, m.Close(t.Context()))
		check(t, story(cfg))
		sweep(t, cfg.State)
	}
}

func wantNoImage(t *testing.T, cfg Config, step string) {
	t.Helper()
	if found, err := filepath.Glob(filepath.Join(cfg.State, "pools", "*.new")); err != nil || len(found) != 0 {
		t.Errorf("after %q failed there is %q (%v)", step, found, err)
	}
}

func wantNothingHalf(t *testing.T, cfg Config, step string) {
	t.Helper()
	for _, folder := range []string{"volumes", "vdisks"} {
		found, err := filepath.Glob(filepath.Join(cfg.complete().mount("ssd0"), folder, ".*"))
		if err != nil || len(found) != 0 {
			t.Errorf("after %q failed there is %q (%v)", step, found, err)
		}
	}
}

// wantWhole checks that a module has no half of anything, and that its index
// and its limits agree with the volumes on disk.
func wantWhole(t *testing.T, m *Module) {
	t.Helper()
	status := m.status()
	if len(status.Pools) != 1 || len(status.BrokenPools) != 0 {
		t.Fatalf("status is %+v", status)
	}
	p := m.pools[0]
	wantNothingHalf(t, m.cfg, "a crash")
	wantNoImage(t, m.cfg, "a crash")
	for folder, k := range map[string]kind{"volumes": filesystems(), "vdisks": vdisks()} {
		labels, err := k.of(p).Labels()
		check(t, err)
		inIndex, inPool := folderNames(t, filepath.Join(m.cfg.indexOf(p.name), folder)), folderNames(t, filepath.Join(p.path, folder))
		if !slices.Equal(inIndex, inPool) || len(labels) != len(inPool) {
			t.Errorf("the index has %q, the pool %q, %d are labelled", inIndex, inPool, len(labels))
		}
	}
	wantWholeDisks(t, m)
	for _, name := range names(t, m) {
		f, err := m.Storage().InspectFilesystem(name)
		check(t, err)
		path := filepath.Join(f.Path, "fill")
		if n, err := fill(path, f.Size+8*mib); !errors.Is(err, unix.EDQUOT) || n > f.Size || n < saturate.Sub(f.Size, 4*mib) {
			t.Errorf("%d bytes went into %s of %d (%v)", n, name, f.Size, err)
		}
		check(t, os.Remove(path))
	}
}

// wantWholeDisks checks that each disk's image, limit and mode are as its label says.
func wantWholeDisks(t *testing.T, m *Module) {
	t.Helper()
	all, err := m.VDisks().List()
	check(t, err)
	f, err := m.pools[0].open()
	check(t, err)
	groups, err := f.Groups()
	check(t, errors.Join(err, f.Close()))
	for _, d := range all {
		info, err := os.Lstat(d.Path)
		check(t, err)
		if !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || uint64(info.Size()) != d.Size {
			t.Errorf("the image of %+v has mode %s and %d bytes", d, info.Mode(), info.Size())
		}
		id, err := btrfs.SubvolumeID(filepath.Dir(d.Path))
		check(t, err)
		group := id
		if m.status().Quota == string(volume.Simple) {
			group = btrfs.GroupID(volume.FamilyLevel, id)
		}
		if g := groups[group]; g == nil || g.Max != volume.DiskRoom(d.Size) {
			t.Errorf("the limit of %+v is %+v", d, g)
		}
		for _, dir := range []string{filepath.Dir(d.Path), m.pools[0].disks.Folder()} {
			if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %s (%v)", dir, info.Mode(), err)
			}
		}
		if d.Name == "8-1" && (d.Size > 16*mib || d.Hash != "") { // written before that
			check(t, wantStamp(d.Path, 5*mib))
		}
	}
}

func folderNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// wantEnd checks what the story ends with.
func wantEnd(t *testing.T, m *Module) {
	t.Helper()
	if got := names(t, m); !slices.Equal(got, []string{"7-1"}) {
		t.Errorf("there are filesystems %q", got)
	}
	disks, err := m.VDisks().List()
	check(t, err)
	if len(disks) != 1 || disks[0].Name != "8-1" || disks[0].Size != 32*mib || disks[0].Hash != storyHash {
		t.Fatalf("there are vdisks %+v", disks)
	}
	check(t, errors.Join(wantStamp(disks[0].Path, 5*mib), wantStamp(disks[0].Path, 31*mib)))
	if reserved := m.status().Pools[0].Reserved; reserved != 32*mib+volume.DiskRoom(32*mib) {
		t.Errorf("reserved are %s", bytesize.Format(reserved))
	}
}

func openForStory(cfg Config) (context.Context, *Module, error) {
	ctx := context.Background()
	m, err := Open(ctx, cfg)
	if err != nil {
		return ctx, nil, err
	}
	if status := m.status(); len(status.BrokenPools) != 0 {
		m.Close(ctx)
		return ctx, nil, errors.New(status.BrokenPools[0].Cause)
	}
	return ctx, m, nil
}
