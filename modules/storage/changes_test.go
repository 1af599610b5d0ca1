package storage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/changestest"
)

func TestRemovedThingsAreTold(t *testing.T) {
	m := settled(t)
	for _, name := range []string{"1-1", "2-1", "3-1.layer", "zdb-ssd0"} {
		create(t, m, name, minSize)
	}
	allocate(t, m, "4-1", minSize)
	pool := m.pools[0]
	e := changestest.Listen(t, m.Changes())
	remove := func(path string) {
		t.Helper()
		if out, err := command(t.Context(), "btrfs", "subvolume", "delete", path); err != nil {
			t.Fatal(err, out)
		}
	}
	remove(pool.filesystems.Place("zdb-ssd0")) // nobody's
	remove(pool.filesystems.Place("1-1"))
	e.HearsOnly("a removed volume", "1-1")
	remove(pool.filesystems.Place("3-1.layer"))
	e.HearsOnly("a removed layer", "3-1")
	check(t, os.Rename(pool.filesystems.Place("2-1"), pool.filesystems.Place("elsewhere")))
	e.HearsOnly("a renamed volume", "2-1")
	remove(pool.disks.Place("4-1"))
	e.HearsOnly("a removed disk", "4-1")
}

// An unmounted pool is mounted again at once, and heard of from then on.
func TestUnmountedPoolIsMountedAtOnce(t *testing.T) {
	m := settled(t)
	create(t, m, "1-1", minSize)
	e := changestest.Listen(t, m.Changes())
	pool := m.pools[0]
	for range 3 {
		_, before := pool.mountedFrom()
		began := time.Now()
		check(t, unix.Unmount(pool.path, 0))
		e.HearsLost("an unmounted pool")
		soon(t, "it is mounted again", func() bool { _, again := pool.mountedFrom(); return again > before })
		t.Logf("mounted again after %s", time.Since(began).Round(time.Millisecond))
		e.Calm()
	}
	if out, err := command(t.Context(), "btrfs", "subvolume", "delete", filepath.Join(pool.filesystems.Folder(), "1-1")); err != nil {
		t.Fatal(err, out)
	}
	e.HearsOnly("a volume of the pool that was mounted again", "1-1")
}

func TestClosedModuleHearsNothing(t *testing.T) {
	m := settled(t)
	changestest.Listen(t, m.Changes())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, m.Close(ctx))
}
