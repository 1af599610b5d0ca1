package storage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
)

// Two volumes are renamed and back; a zdb's volume, and what somebody else has put beside them, is no reservation's.
func TestChangesConform(t *testing.T) {
	m := settled(t)
	for _, name := range []string{"1-1", "2-1"} {
		create(t, m, name, minSize)
	}
	place := func(name string) string { return m.pools[0].filesystems.Place(name) }
	// A folder gets all of these names, one after the other.
	appear := func(t *testing.T, names []string) {
		t.Helper()
		at := place("moves")
		check(t, os.Mkdir(at, 0o700))
		for _, name := range names {
			check(t, os.Rename(at, place(name)))
			at = place(name)
		}
		check(t, os.Remove(at))
	}
	changesconformance.Suite(t, changesconformance.Subject{
		Changes: m.Changes(), One: "1-1", Other: "2-1",
		Change: func(t *testing.T, id string) {
			t.Helper()
			check(t, os.Rename(place(id), place("elsewhere")))
			check(t, os.Rename(place("elsewhere"), place(id)))
		},
		Foreign: func(t *testing.T) {
			t.Helper()
			appear(t, []string{"zdb-ssd0", "zdb-ssd0.layer", "someones", "1-01", ".1-2"})
		},
		Appear: appear,
		Restart: func(t *testing.T) node.Changes {
			t.Helper()
			m = reopen(t, m)
			return m.Changes()
		},
	})
}

func TestRemovedThingsAreTold(t *testing.T) {
	m := settled(t)
	for _, name := range []string{"1-1", "3-1.layer"} {
		create(t, m, name, minSize)
	}
	allocate(t, m, "4-1", minSize)
	pool := m.pools[0]
	e := changesconformance.Listen(t, m.Changes())
	remove := func(path string) {
		t.Helper()
		if out, err := command(t.Context(), "btrfs", "subvolume", "delete", path); err != nil {
			t.Fatal(err, out)
		}
	}
	remove(pool.filesystems.Place("1-1"))
	e.HearsOnly("a removed volume", "1-1")
	remove(pool.filesystems.Place("3-1.layer"))
	e.HearsOnly("a removed layer", "3-1")
	remove(pool.disks.Place("4-1"))
	e.HearsOnly("a removed disk", "4-1")
}

// An unmounted pool is mounted again at once, and heard of from then on.
func TestUnmountedPoolIsMountedAtOnce(t *testing.T) {
	m := settled(t)
	create(t, m, "1-1", minSize)
	e := changesconformance.Listen(t, m.Changes())
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
	changesconformance.Listen(t, m.Changes())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, m.Close(ctx))
}
