package provision_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// crashWorld is a world whose node is restarted from its disk each time its stepper stopped it.
type crashWorld struct {
	*world
	// plan names the point at which each incarnation stops; later ones don't.
	plan  []string
	steps []*stepper
	alive *incarnation
	// beside is whether several effects are in flight, and share writes.
	beside bool
}

func newCrashWorld(t *testing.T, root string, plan []string) *crashWorld {
	t.Helper()
	c := &crashWorld{world: newWorldAt(t, tempDir(t, root)), plan: plan}
	c.limits.Round = 1 // each event has its own write, so that each run has the same writes
	c.boot()
	return c
}

// boot opens the store anew and starts the node.
func (c *crashWorld) boot() {
	c.t.Helper()
	if err := c.records.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.records = openStore(c.t, c.dir)
	at := ""
	if n := len(c.steps); n < len(c.plan) {
		at = c.plan[n]
	}
	steps := newStepper(at)
	steps.counted = c.beside
	c.steps = append(c.steps, steps)
	c.alive = c.start(steps)
}

// settle runs the node, again after each stop, until ok holds.
func (c *crashWorld) settle(what string, ok func() bool) {
	c.t.Helper()
	c.until(what, func() bool {
		if c.alive.steps.isDead() {
			c.alive.stop(c.t)
			c.boot()
			return false
		}
		return ok()
	})
}

// shutdown ends the node in order; its points may be the ones to stop at.
func (c *crashWorld) shutdown() {
	c.t.Helper()
	c.alive.stop(c.t)
}

// life runs everything that a node does, in one go: provision, refuse, retry, redeliver,
// renew, decommission (one that has to wait, one by expiry), restore.
func life(c *crashWorld) {
	c.t.Helper()
	c.storage.failing("create 3-1", node.Errorf(node.Transient, "cannot create: storage restarts"))
	kept := c.volume(nil)
	refused := c.explorer.push(c.reserve(workload.TypeVolume, `{"size":0,"type":"SSD"}`, nil))
	retried := c.volume(nil)
	deleted := c.volume(nil)
	expiring := c.volume(func(r *workload.Reservation) { r.Duration = 5 * time.Minute })
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
		return state(kept) == workload.StateOK && state(refused) == workload.StateError && state(retried) == workload.StateOK &&
			state(deleted) == workload.StateOK && state(expiring) == workload.StateOK && delivered()
	})

	c.storage.failing("release "+deleted, node.Errorf(node.Busy, "cannot release: a container mounts it"))
	c.remove(deleted)
	c.renew(kept, c.clock.wall().Add(48*time.Hour))
	c.explorer.change(retried, func(*workload.Reservation) {}) // a redelivery
	c.settle("the deletion and the expiry are done", func() bool {
		rec, err := c.records.Record(kept)
		return state(deleted) == workload.StateDeleted && state(expiring) == workload.StateExpired &&
			err == nil && rec.Reservation.Renewal != nil && delivered()
	})

	// A restart with one workload missing and one half gone.
	c.shutdown()
	c.storage.lose(retried)
	c.boot()
	c.settle("what was lost is made again", func() bool {
		return slices.Equal(c.storage.names(), []string{kept, retried}) && delivered() && c.alive.engine.Ready()
	})
	c.remove(retried)
	c.settle("the last deletion is done", func() bool { return state(retried) == workload.StateDeleted && delivered() })
	c.check(kept, refused, retried, deleted, expiring)
	c.shutdown()
}

// check asserts the state that any stop must lead to.
func (c *crashWorld) check(kept, refused, retried, deleted, expiring string) {
	c.t.Helper()
	if names := c.storage.names(); !slices.Equal(names, []string{kept}) {
		c.t.Errorf("on the node is %v, want %s alone", names, kept)
	}
	for id, most := range map[string]int{kept: 1, refused: 0, deleted: 1, expiring: 1, retried: 2} {
		if made := c.storage.creations(id); made > most {
			c.t.Errorf("%s was made %d times, want at most %d", id, made, most)
		}
	}
	recs, err := c.records.List()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, rec := range recs {
		want := map[string]store.Phase{kept: store.Deployed, refused: store.Refused, retried: store.Ended, deleted: store.Ended}[rec.ID()]
		if rec.ID() == expiring {
			want = store.Ended
		}
		if rec.Phase != want || !rec.Delivered || rec.NextAttempt != (time.Time{}) {
			c.t.Errorf("record %s is %s, delivered %t, next attempt %s; want %s, delivered", rec.ID(), rec.Phase, rec.Delivered, rec.NextAttempt, want)
		}
		if last := c.explorer.result(rec.ID()); last == nil || last.State != rec.Result.State || last.Sequence != rec.Result.Sequence {
			c.t.Errorf("%s: the explorer has %+v, the record %+v", rec.ID(), last, rec.Result)
		}
		c.checkAnswers(rec.ID())
	}
	if orphans := c.alive.engine.Orphans(); len(orphans) != 0 {
		c.t.Errorf("orphans: %+v", orphans)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if got := <-c.alive.engine.Counters(ctx); got != (workload.ProvisionCounters{Volume: 1}) {
		c.t.Errorf("counters are %+v, want one volume", got)
	}
}

// checkAnswers asserts that no user is told of a wrong end, or of an end twice.
func (c *crashWorld) checkAnswers(id string) {
	c.t.Helper()
	all := c.explorer.all(id)
	if !slices.IsSortedFunc(all, compareSequence) {
		c.t.Errorf("%s: results came out of order: %+v", id, all)
	}
	ended := 0
	for _, r := range all {
		if workload.Ended(r.State) {
			ended++
		} else if ended > 0 {
			c.t.Errorf("%s: %s after its end", id, r.State)
		}
	}
	if ended > 1 {
		c.t.Errorf("%s: told %d times that it has ended", id, ended)
	}
}

// stopAt runs the life with the planned stops, and reports whether it reached the last of
// them. Feedback runs beside the engine: the order of two answers, or whether one overtakes
// the other, differs between runs.
func stopAt(t *testing.T, root string, plan ...string) bool {
	t.Helper()
	const tries = 20
	last := len(plan) - 1
	for range tries {
		points := runLife(t, root, plan)
		if len(points) > last && slices.Contains(points[last], plan[last]) {
			return true
		}
	}
	return false
}

// runLife runs the life with the planned stops and returns each incarnation's points.
func runLife(t *testing.T, root string, plan []string) [][]string {
	t.Helper()
	var points [][]string
	synctest.Test(t, func(t *testing.T) {
		c := newCrashWorld(t, root, plan)
		life(c)
		for _, s := range c.steps {
			points = append(points, s.all())
		}
	})
	return points
}

// orderlyPoints are the points of a life without stops, by process: those that several lives have in
// common, because the number of pages of the explorer's answers depends on timing.
func orderlyPoints(t *testing.T, root string) [][]string {
	t.Helper()
	const lives = 5
	var out [][]string
	for i := range lives {
		points := runLife(t, root, nil)
		if len(points) != 2 {
			t.Fatalf("an orderly life has %d processes, want 2", len(points))
		}
		if i == 0 {
			out = points
			continue
		}
		for process := range out {
			out[process] = slices.DeleteFunc(out[process], func(at string) bool { return !slices.Contains(points[process], at) })
		}
	}
	return out
}

// TestCrashPoints stops the node at every point of its life, starts it again and asserts
// that nothing is lost, doubled or left behind. The points are those of a life without
// stops, of its first and second process.
func TestCrashPoints(t *testing.T) {
	root := fastRoot(t)
	orderly := orderlyPoints(t, root)
	stops := 0
	for process, points := range orderly {
		for _, at := range points {
			plan := append(make([]string, process), at)
			t.Run(fmt.Sprintf("process %d/%s", process+1, at), func(t *testing.T) {
				if !stopAt(t, root, plan...) {
					t.Fatalf("never came to %q", at)
				}
				stops++
			})
		}
	}
	fmt.Printf("crash points: %d\n", stops)
	t.Logf("crash points: %d", stops)
	if stops < 120 {
		t.Fatalf("%d points are too few: something isn't stepped any more", stops)
	}
}

// TestCrashPointsOnDisk does the same on a disk, with all its fsyncs, once for each kind of point.
func TestCrashPointsOnDisk(t *testing.T) {
	root := t.TempDir()
	seen := map[string]bool{}
	for _, at := range orderlyPoints(t, root)[0] {
		kind := regexp.MustCompile(`[0-9]+-1|#[0-9]+`).ReplaceAllString(at, "")
		if seen[kind] {
			continue
		}
		seen[kind] = true
		t.Run(at, func(t *testing.T) {
			if !stopAt(t, root, at) {
				t.Fatalf("never came to %q", at)
			}
		})
	}
}

// TestCrashDuringRecovery stops the node again at the points of the process
// that recovers from a stop, for stops that leave much undone.
func TestCrashDuringRecovery(t *testing.T) {
	root := fastRoot(t)
	stops := 0
	for _, first := range []string{"after create 1-1 #1", "after write 4-1 leaving #1", "before send 4-1 deleted #1"} {
		for _, second := range runLife(t, root, []string{first})[1] {
			t.Run(first+"/"+second, func(t *testing.T) {
				// Work concurrent with the engine may not come again in this order.
				if points := runLife(t, root, []string{first, second}); slices.Contains(points[1], second) {
					stops++
				}
			})
		}
	}
	fmt.Printf("crash points during recovery: %d\n", stops)
	t.Logf("crash points during recovery: %d", stops)
	if stops < 100 {
		t.Fatalf("only %d stops during a recovery", stops)
	}
}

// TestEveryKindOfStepIsStopped asserts that the life passes all kinds of points.
func TestEveryKindOfStepIsStopped(t *testing.T) {
	seen := map[string]bool{}
	for _, process := range runLife(t, fastRoot(t), nil) {
		for _, point := range process {
			var when, what string
			if _, err := fmt.Sscan(point, &when, &what); err != nil {
				t.Fatal(err)
			}
			seen[when+" "+what] = true
		}
	}
	for _, what := range []string{"write", "acknowledge", "resend", "create", "release", "list", "sign", "send", "cursor"} {
		for _, when := range []string{"before", "after"} {
			if !seen[when+" "+what] {
				t.Errorf("no point %s %s in %v", when, what, slices.Sorted(maps.Keys(seen)))
			}
		}
	}
}
