package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/conformance"
	"github.com/croft-edge/croft/provision/persist/fs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a clock that goes on at fsyncs alone.
type disk struct {
	mu   sync.Mutex
	now  time.Time
	slow map[string]time.Duration
}

func (d *disk) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// hook lets each change of a folder, which ends by one fsync of it, take a while.
func (d *disk) hook(p atomicfile.Point) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Op == atomicfile.SyncDir && p.After {
		d.now = d.now.Add(d.slow[filepath.Dir(p.Path)])
	}
	return nil
}

func provider(t *testing.T, c fs.Config) persist.Provider {
	t.Helper()
	p, err := fs.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fast is a folder in memory.
func fast(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "croft-persist-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.World {
		root := fast(t)
		paths := map[string]string{}
		d := &disk{now: time.Now(), slow: map[string]time.Duration{}}
		c := fs.Config{Now: d.Now, Hook: d.hook}
		for _, name := range []string{"one", "other"} {
			s := fs.Settings{Folder: filepath.Join(root, "made", name)}
			c.Instances = append(c.Instances, s)
			instance, err := persist.InstanceName(fs.Kind, s)
			if err != nil {
				t.Fatal(err)
			}
			paths[instance] = s.Folder
		}
		move := func(t *testing.T, from, to string) {
			t.Helper()
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		return conformance.World{
			Open: func(t *testing.T) persist.Provider { return provider(t, c) },
			Break: func(t *testing.T, at string) {
				move(t, paths[at], paths[at]+".away")
				// A file in its place: a restart can't make the folder again.
				if err := os.WriteFile(paths[at], nil, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			Mend: func(t *testing.T, at string) {
				if err := os.Remove(paths[at]); err != nil {
					t.Fatal(err)
				}
				move(t, paths[at]+".away", paths[at])
			},
			Slow: func(_ *testing.T, at string, took time.Duration) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.slow[paths[at]] = took
			},
		}
	})
}

// one is a provider of one folder that is up.
func one(t *testing.T, s fs.Settings, hook atomicfile.Hook) (persist.Provider, string) {
	t.Helper()
	p := provider(t, fs.Config{Instances: []fs.Settings{s}, Hook: hook})
	if err := p.Initialize(t.Context(), conformance.Machine); err != nil {
		t.Fatal(err)
	}
	return p, p.Instances()[0]
}

func wantKind(t *testing.T, what string, err error, kind node.Kind) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Errorf("%s: %v (%s), want %s", what, err, node.KindOf(err), kind)
	}
}

// Files that aren't whole objects of this machine, of this kind and under this name, are told and never taken for objects.
func TestTornAndForeignFiles(t *testing.T) {
	dir := t.TempDir()
	p, at := one(t, fs.Settings{Folder: dir}, nil)
	for _, name := range []string{"sound", "torn", "flipped", "longer", "swapped"} {
		if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: name, Body: []byte("the body of " + name)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "other", Name: "kind"}); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, "note", name) }
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	torn, flipped := read(path("torn")), read(path("flipped"))
	write("torn", torn[:len(torn)-1])
	flipped[len(flipped)-1] ^= 1
	write("flipped", flipped)
	write("longer", append(read(path("longer")), 'x'))
	write("swapped", read(path("sound")))
	write("kind", read(filepath.Join(dir, "other", "kind")))
	write("empty", nil)
	write("README", []byte("foreign"))
	write("machines", []byte(strings.Replace(string(read(path("sound"))), string(conformance.Machine), string(conformance.Other), 1)))
	write(".nfs0001", []byte("deleted, and open elsewhere"))
	write(".tmp-sound", []byte("half"))
	if err := os.Symlink(path("sound"), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("huge", nil)
	if err := os.Truncate(path("huge"), persist.MaxFramed+1); err != nil {
		t.Fatal(err)
	}
	sound, bad := 0, map[string]bool{}
	for o, err := range p.GetAllObjects(t.Context(), at, "note") {
		if err == nil {
			sound++
			continue
		}
		wantKind(t, o.Name, err, node.Invalid)
		bad[o.Name] = true
	}
	for _, name := range []string{"torn", "flipped", "longer", "swapped", "kind", "empty", "README", "machines", "link", "fifo", "folder", "huge"} {
		if !bad[name] {
			t.Errorf("%s isn't told", name)
		}
	}
	if sound != 1 || len(bad) != 12 {
		t.Errorf("%d sound objects, and %v", sound, bad)
	}
	if s := p.InstanceStatus(at); !s.Status {
		t.Error("bad files take the instance down")
	}
}

// An empty folder in the place of the one that was in use, such as the mount point of an NFS that went away, is never written to.
func TestAnEmptyMountPoint(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "mnt")
		p, at := one(t, fs.Settings{Folder: dir}, nil)
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if restarted { // the same, but for a process that has never seen the right folder
			p = provider(t, fs.Config{Instances: []fs.Settings{{Folder: dir, Mounted: true}}})
			at = p.Instances()[0]
		}
		for range 2 {
			_, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a"})
			wantKind(t, "put", err, node.Transient)
			if same(t, dir, "/") || !restarted {
				wantKind(t, "initialize", p.Initialize(t.Context(), conformance.Machine), node.Transient)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 && (same(t, dir, "/") || !restarted) {
			t.Errorf("the mount point has %v, %v", entries, err)
		}
	}
}

// same is whether two paths are on one file system.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	var of [2]unix.Stat_t
	for i, path := range []string{a, b} {
		if err := unix.Stat(path, &of[i]); err != nil {
			t.Fatal(err)
		}
	}
	return of[0].Dev == of[1].Dev
}

// A file system that is mounted there is used.
func TestMounted(t *testing.T) {
	dir := fast(t)
	p, at := one(t, fs.Settings{Folder: dir, Mounted: true}, nil)
	if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a"}); err != nil {
		t.Error(err)
	}
	missing := provider(t, fs.Config{Instances: []fs.Settings{{Folder: dir + "/missing", Mounted: true}}})
	if err := missing.Initialize(t.Context(), conformance.Machine); err == nil {
		t.Error("a folder that isn't mounted was made")
	}
	if _, err := os.Lstat(dir + "/missing"); err == nil {
		t.Error("a folder that isn't mounted was made")
	}
}

// Each of the disk's errors has the kind that callers expect, and only those of a place that is gone take it down.
func TestKinds(t *testing.T) {
	for cause, want := range map[error]struct {
		kind node.Kind
		up   bool
	}{
		unix.ENOSPC: {node.NoSpace, true}, unix.EDQUOT: {node.NoSpace, true}, unix.EIO: {node.Transient, false},
		unix.EROFS: {node.Refused, false}, unix.EACCES: {node.Refused, false}, unix.ESTALE: {node.Transient, false}, unix.ENOENT: {node.Transient, false},
	} {
		fail := false
		p, at := one(t, fs.Settings{Folder: t.TempDir()}, func(p atomicfile.Point) error {
			if fail && p.Op == atomicfile.Write && !p.After {
				return cause
			}
			return nil
		})
		fail = true
		_, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a"})
		wantKind(t, cause.Error(), err, want.kind)
		if s := p.InstanceStatus(at); s.Status != want.up {
			t.Errorf("after %v: %+v", cause, s)
		}
	}
}

// A file server that doesn't answer holds up its caller until the end of its context, others too, and one goroutine.
func TestAFileSystemThatHangs(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p, at := one(t, fs.Settings{Folder: t.TempDir()}, func(p atomicfile.Point) error {
		if p.Op == atomicfile.Sync && !p.After {
			once.Do(func() { close(stuck); <-free })
		}
		return nil
	})
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.PutObject(soon, at, persist.Object{Kind: "note", Name: "a"})
	wantKind(t, "put", err, node.Transient)
	<-stuck
	if s := p.InstanceStatus(at); s.Status {
		t.Errorf("%+v", s)
	}
	wantKind(t, "initialize", p.Initialize(soon, conformance.Machine), node.Transient)
	close(free)
	if err := p.Initialize(t.Context(), conformance.Machine); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a", Body: []byte("2")}); err != nil {
		t.Error(err)
	}
}

// Of two machines that come at the same time, one gets the folder.
func TestTwoMachinesAtOnce(t *testing.T) {
	for range 20 {
		s := fs.Settings{Folder: filepath.Join(fast(t), "x")}
		machines := []persist.MachineID{conformance.Machine, conformance.Other}
		errs := make([]error, 2)
		var wait sync.WaitGroup
		for i, machine := range machines {
			p := provider(t, fs.Config{Instances: []fs.Settings{s}})
			wait.Go(func() { errs[i] = p.Initialize(t.Context(), machine) })
		}
		wait.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("both or none: %v", errs)
		}
		for _, err := range errs {
			if err != nil && node.KindOf(err) != node.Refused {
				t.Errorf("%v", err)
			}
		}
	}
}

// A damaged marker is refused, with what to do, and never replaced.
func TestDamagedMarker(t *testing.T) {
	for _, text := range []string{"", "5HxS1", "\n", strings.Repeat("x", 5000)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".machine"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := provider(t, fs.Config{Instances: []fs.Settings{{Folder: dir}}})
		wantKind(t, text, p.Initialize(t.Context(), conformance.Machine), node.Refused)
		if now, err := os.ReadFile(filepath.Join(dir, ".machine")); err != nil || string(now) != text {
			t.Errorf("%.20q became %.20q, %v", text, now, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, folder := range []string{"", "a", "./a", "/a/../b", "/", "/a/"} {
		_, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: folder}}})
		wantKind(t, folder, err, node.Invalid)
	}
	_, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: "/a"}, {Folder: "/a"}}})
	wantKind(t, "twice", err, node.Invalid)
}
