package changes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// within is how soon a change is told on a machine that has time; late is when a test fails.
	within = 2 * time.Second
	late   = 15 * time.Second
	// patience is the longest wait for something that is told at all.
	patience = time.Minute
	// after is how long an Ear goes on to hear what is told beside what it waited for.
	after = 500 * time.Millisecond
)

// Ear hears a stream, and checks that each value may follow the one before it.
type Ear struct {
	t  testing.TB
	in <-chan node.Change
	// last is the last value; its Number is 0 before the first one.
	last node.Change
}

// Listen hears a module's changes until the test ends. It returns once nothing is told.
func Listen(t testing.TB, from node.Changes) *Ear {
	t.Helper()
	return listen(t, from.Changes(t.Context()))
}

func listen(t testing.TB, in <-chan node.Change) *Ear {
	t.Helper()
	e := &Ear{t: t, in: in}
	e.Calm()
	return e
}

// next takes the next value. None comes when until is over before it.
func (e *Ear) next(until <-chan time.Time) (c node.Change, comes bool) {
	e.t.Helper()
	select {
	case c, comes = <-e.in:
		if !comes {
			e.t.Fatal("the stream has ended")
		}
		e.check(c)
		e.last = c
		return c, true
	case <-until:
		return c, false
	}
}

// check checks what holds of every value.
func (e *Ear) check(c node.Change) {
	e.t.Helper()
	if e.last.Number != 0 && (c.Stream != e.last.Stream || c.Number != e.last.Number+1) {
		e.t.Errorf("value %d of stream %x comes after value %d of stream %x", c.Number, c.Stream, e.last.Number, e.last.Stream)
	}
	if c.Number == 0 || c.Number == 1 && !c.Lost {
		e.t.Errorf("value %d isn't Lost: a stream's first value is 1, and is", c.Number)
	}
	if len(c.IDs) > node.ChangesMost {
		e.t.Errorf("a value has %d IDs, at most %d are allowed", len(c.IDs), node.ChangesMost)
	}
	if !slices.IsSorted(c.IDs) || len(slices.Compact(slices.Clone(c.IDs))) != len(c.IDs) {
		e.t.Errorf("a value has %v, must have each ID once, sorted", c.IDs)
	}
	for _, id := range c.IDs {
		if !workload.IsID(id) {
			e.t.Errorf("a value has %q, which is no reservation's ID", id)
		}
	}
}

// Calm waits until nothing has been told for a second and a half.
func (e *Ear) Calm() {
	e.t.Helper()
	const still = 1500 * time.Millisecond
	quiet, end := time.NewTimer(still), time.Now().Add(patience)
	defer quiet.Stop()
	for {
		c, comes := e.next(quiet.C)
		switch {
		case !comes && e.last.Number == 0: // on a bus, the first value may be a sign of life
			quiet.Reset(still)
		case !comes:
			return
		case c.Lost || len(c.IDs) > 0:
			quiet.Reset(still)
		}
		if time.Now().After(end) {
			e.t.Fatalf("changes are told without end, or nothing is: the last value is %+v", e.last)
		}
	}
}

// await takes values until these IDs are told. The test fails when that takes much too long.
func (e *Ear) await(what string, ids ...string) (all []node.Change) {
	e.t.Helper()
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	began, end := time.Now(), time.After(patience)
	for len(missing) > 0 {
		c, comes := e.next(end)
		if !comes {
			e.t.Fatalf("%s: of %d IDs %d aren't told: %.300s; told are %.300s", what, len(ids), len(missing), fmt.Sprint(slices.Sorted(maps.Keys(missing))), fmt.Sprint(named(all)))
		}
		e.unbroken(what, c)
		for _, id := range c.IDs {
			delete(missing, id)
		}
		all = append(all, c)
	}
	took := time.Since(began)
	e.t.Logf("%s: told after %s", what, took.Round(time.Millisecond))
	if took > late {
		e.t.Errorf("%s: told after %s, must be within %s, and is within %s on a machine that has time", what, took, late, within)
	}
	return all
}

// hear is await, and goes on until nothing more is told.
func (e *Ear) hear(what string, ids ...string) []node.Change {
	e.t.Helper()
	all := e.await(what, ids...)
	for quiet := time.After(after); ; {
		c, comes := e.next(quiet)
		if !comes {
			return all
		}
		e.unbroken(what, c)
		all = append(all, c)
	}
}

func (e *Ear) unbroken(what string, c node.Change) {
	e.t.Helper()
	if c.Lost {
		e.t.Errorf("%s: told as lost", what)
	}
}

// named are the IDs of values, each once, sorted.
func named(all []node.Change) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.IDs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Hears waits until an ID is told, and returns all that are told until nothing more is. The
// test fails when that takes much too long.
func (e *Ear) Hears(what, id string) (ids []string) {
	e.t.Helper()
	return named(e.hear(what, id))
}

// HearsOnly is Hears of a change that nothing else is told with.
func (e *Ear) HearsOnly(what, id string) {
	e.t.Helper()
	if ids := e.Hears(what, id); !slices.Equal(ids, []string{id}) {
		e.t.Errorf("%s: told are %v, want %s alone", what, ids, id)
	}
}

// HearsLost waits until it is told that changes were lost.
func (e *Ear) HearsLost(what string) {
	e.t.Helper()
	for end := time.After(patience); ; {
		c, comes := e.next(end)
		if !comes {
			e.t.Fatalf("%s: it isn't told as lost", what)
		}
		if c.Lost {
			return
		}
	}
}

// ends checks that the stream ends soon after its context has.
func (e *Ear) ends(cancel context.CancelFunc) {
	e.t.Helper()
	cancel()
	ended(e.t, e.in)
}

// ended takes what is left of a stream whose context has ended, and returns how many values that were.
func ended(t testing.TB, in <-chan node.Change) (left int) {
	t.Helper()
	for end := time.After(patience); ; left++ {
		select {
		case _, open := <-in:
			if !open {
				return left
			}
		case <-end:
			t.Fatalf("the stream is open %s after its context has ended", patience)
		}
	}
}
