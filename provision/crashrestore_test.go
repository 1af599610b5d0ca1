package provision_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/store"
)

// restoredLife is the life of a node that loses its store while its workloads run, gets one from a mirror, and goes on.
func restoredLife(c *crashWorld) {
	c.t.Helper()
	kept, deleted := c.volume(nil), c.volume(nil)
	expiring := c.volume(func(r *workload.Reservation) { r.Duration = 10 * time.Minute })
	state := func(id string) workload.State {
		if r := c.explorer.result(id); r != nil {
			return r.State
		}
		return ""
	}
	delivered := func() bool {
		owed, err := c.records.Undelivered()
		return err == nil && len(owed) == 0
	}
	c.settle("all are answered", func() bool {
		return state(kept) == workload.StateOK && state(deleted) == workload.StateOK && state(expiring) == workload.StateOK && delivered()
	})
	c.shutdown()
	c.loseStore()
	c.boot()
	all := []string{kept, deleted, expiring}
	c.settle("all are adopted", func() bool {
		return c.alive.engine.Ready() && delivered() && slices.Equal(c.storage.names(), all) && len(c.alive.engine.Orphans()) == 0
	})
	c.remove(deleted)
	c.renew(kept, c.clock.wall().Add(48*time.Hour))
	c.settle("the deletion, the renewal and the expiry are done", func() bool {
		rec, err := c.records.Record(kept)
		return state(deleted) == workload.StateDeleted && state(expiring) == workload.StateExpired && err == nil && rec.Reservation.Renewal != nil && delivered()
	})
	if names := c.storage.names(); !slices.Equal(names, []string{kept}) {
		c.t.Errorf("on the node is %v, want %s alone", names, kept)
	}
	for _, id := range all {
		if made := c.storage.creations(id); made != 1 {
			c.t.Errorf("%s was made %d times: what runs isn't adopted", id, made)
		}
		c.checkAnswers(id)
	}
	if orphans := c.alive.engine.Orphans(); len(orphans) != 0 {
		c.t.Errorf("orphans: %+v", orphans)
	}
	c.shutdown()
}

// loseStore copies the store to a mirror, removes it, and restores it.
func (c *crashWorld) loseStore() {
	c.t.Helper()
	p, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: c.dir + ".mirror"}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = os.RemoveAll(c.dir + ".mirror") })
	m, err := mirror.New(mirror.Config{
		Provider: p, Instance: p.Instances()[0], Source: mirror.Folder(c.dir), Key: c.key,
		Birth: func() (string, []string) { return c.records.Birth().ID, c.records.Ancestors() },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	c.until("mirrored", func() bool {
		s := m.Status()
		return s.Complete && s.Names == 0
	})
	stop()
	<-done
	if err := c.records.Close(); err != nil {
		c.t.Fatal(err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Fatal(err)
	}
	_, err = mirror.Restore(c.t.Context(), mirror.RestoreConfig{
		Provider: p, Instance: p.Instances()[0], Machine: persist.MachineID(c.key.ID()), Key: c.key, Folder: c.dir,
		Rebirth: func(folder string) error {
			s, err := store.Open(store.Config{Root: folder, Demand: demandOf})
			if err != nil {
				return err
			}
			defer s.Close()
			return s.Rebirth()
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.records = openStore(c.t, c.dir)
	if err := c.cursor.SetCursor(explorer.Cursor{}); err != nil { // the restored store's
		c.t.Fatal(err)
	}
}

// runRestored runs the life with the planned stops and returns each process's points.
func runRestored(t *testing.T, root string, plan []string) (points [][]string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCrashWorld(t, root, plan)
		restoredLife(c)
		for _, s := range c.steps {
			points = append(points, s.all())
		}
	})
	return points
}

// TestCrashAfterRestore stops the node at every point of the process that takes over a restored store. What runs is adopted
// all the same, nothing is made twice, and no answer is lost.
func TestCrashAfterRestore(t *testing.T) {
	root := fastRoot(t)
	orderly := runRestored(t, root, nil)
	if len(orderly) != 2 {
		t.Fatalf("an orderly life has %d processes, want 2", len(orderly))
	}
	stops := 0
	for _, at := range orderly[1] {
		t.Run(at, func(t *testing.T) {
			const tries = 5 // feedback runs beside the engine: a point may come in another order
			for range tries {
				if points := runRestored(t, root, []string{"", at}); slices.Contains(points[1], at) {
					stops++
					return
				}
			}
		})
	}
	fmt.Printf("crash points after a restore: %d\n", stops)
	if stops < 40 {
		t.Errorf("only %d points of %d: something isn't stepped any more", stops, len(orderly[1]))
	}
}
