package netns_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/croft-edge/croft/modules/network/netns"
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
	var inside int
	err = netns.Do(path, func() error {
		links, err := net.Interfaces()
		inside = len(links)
		return err
	})
	here, herr := net.Interfaces()
	if err != nil || herr != nil || inside >= len(here)+1 || inside < 1 {
		t.Errorf("%d links inside (%v), %d outside (%v)", inside, err, len(here), herr)
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

// The main thread never ends: what it enters, the process would stay in.
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
