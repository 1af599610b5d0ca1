package netns_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/fileid"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

func TestANamespaceLivesAsLongAsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n", "netns")
	if _, err := netns.Inode(path); node.KindOf(err) != node.NotExist {
		t.Fatalf("a namespace that isn't there: %v", err)
	}
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	first, err := netns.Inode(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Make(path); err != nil {
		t.Fatalf("make twice: %v", err)
	}
	if again, _ := netns.Inode(path); again != first {
		t.Errorf("made twice it is another one: %d, then %d", first, again)
	}
	// Loopback is up in the test's own namespace, and down in a new one.
	up := func() (is bool) {
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			t.Error(err)
			return false
		}
		return lo.Flags&net.FlagUp != 0
	}
	inside := true
	if err := netns.Do(path, func() error { inside = up(); return nil }); err != nil || inside || !up() {
		t.Errorf("loopback is up inside: %t (%v), outside: %t", inside, err, up())
	}
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(path); node.KindOf(err) != node.NotExist {
		t.Errorf("removed twice: %v", err)
	}
	if err := netns.Do(path, func() error { return nil }); node.KindOf(err) != node.NotExist {
		t.Errorf("entered though it is gone: %v", err)
	}
}

func TestAFileIsNoNamespace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.Inode(path); node.KindOf(err) != node.NotExist {
		t.Errorf("an empty file: %v", err)
	}
}

// TestOnlyTheOneThatWasSeenIsKept holds that Keeps knows the namespace that is mounted at a path, and takes nothing else for it.
func TestOnlyTheOneThatWasSeenIsKept(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"one", "other"} {
		if err := netns.Make(path(name)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = netns.Remove(path(name)) }()
	}
	inode, err := netns.Kept(path("one"))
	if err != nil {
		t.Fatal(err)
	}
	if !netns.Keeps(path("one"), inode) {
		t.Error("the one that is there isn't kept")
	}
	if err := os.Symlink(path("one"), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := fileid.At(path("file"))
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]uint64{"other": inode, "link": inode, "file": file.Inode, "nothing": inode, "one": inode + 1} {
		if netns.Keeps(path(name), of) {
			t.Errorf("%s keeps the namespace %d", name, of)
		}
	}
	if err := netns.Remove(path("one")); err != nil {
		t.Fatal(err)
	}
	if netns.Keeps(path("one"), inode) {
		t.Error("one that was removed is kept")
	}
}

// The main thread never ends: the process would stay in a namespace that it enters.
func TestTheMainThreadStaysWhereItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "netns")
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	// More at the same time than there are threads: the main one is among them.
	var inside, done sync.WaitGroup
	inside.Add(64)
	for range 64 {
		done.Go(func() {
			if err := netns.Do(path, func() error { inside.Done(); inside.Wait(); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	here, herr := netns.Inode("/proc/thread-self/ns/net")
	main, merr := netns.Inode("/proc/self/ns/net")
	if main != here || herr != nil || merr != nil {
		t.Errorf("this thread is in namespace %d (%v), the process in %d (%v)", here, herr, main, merr)
	}
}

// onMainThread runs fn while another goroutine has taken the main thread into
// the namespace of path, as the netlink library does to open its sockets.
func onMainThread(t *testing.T, path string, fn func()) {
	t.Helper()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	there, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	deadline := time.Now().Add(time.Minute)
	for !onMainThreadOnce(t, own, there, fn) {
		if time.Now().After(deadline) {
			t.Fatal("no goroutine is on the main thread")
		}
	}
}

// onMainThreadOnce is onMainThread unless the main thread is in a system call now: then it runs nothing, and says so.
func onMainThreadOnce(t *testing.T, own, there *os.File, fn func()) bool {
	t.Helper()
	var ready, done sync.WaitGroup
	var found atomic.Bool
	leave := make(chan struct{})
	ready.Add(64)
	for range 64 {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			main := unix.Gettid() == unix.Getpid()
			if main {
				found.Store(true)
				if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
					t.Error(err)
				}
			}
			ready.Done()
			<-leave
			if main {
				if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ready.Wait()
	defer done.Wait()
	defer close(leave)
	if found.Load() {
		fn()
	}
	return found.Load()
}

func TestTheOwnNamespaceIsNotTheMainThreads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "netns")
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	want, err := netns.Inode("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	onMainThread(t, path, func() {
		if main, err := netns.Inode("/proc/self/ns/net"); err != nil || main == want {
			t.Fatalf("the main thread isn't elsewhere: %v", err)
		}
		if got, err := netns.OwnInode(); err != nil || got != want {
			t.Errorf("the own namespace is %d, %v; want %d", got, err, want)
		}
		file, err := netns.Own()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &st); err != nil || st.Ino != want {
			t.Errorf("opened namespace %d, %v; want %d", st.Ino, err, want)
		}
	})
}
