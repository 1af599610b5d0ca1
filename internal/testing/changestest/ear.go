// Package changestest hears a module's stream of changes in tests.
package changestest

import (
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// within is how soon a change is told on a machine that has time; late is when a test fails.
	within = 2 * time.Second
	late   = 15 * time.Second
	// patience is the longest wait for something that is told at all.
	patience = time.Minute
)

// Ear hears a stream.
type Ear struct {
	t  testing.TB
	in <-chan node.Change
}

// Listen hears a module's changes until the test ends. It returns once nothing is told.
func Listen(t testing.TB, from node.Changes) *Ear {
	t.Helper()
	e := &Ear{t: t, in: from.Changes(t.Context())}
	e.Calm()
	return e
}

// Calm waits until nothing has been told for a second and a half.
func (e *Ear) Calm() {
	e.t.Helper()
	const still = 1500 * time.Millisecond
	quiet, end := time.NewTimer(still), time.After(patience)
	defer quiet.Stop()
	for {
		select {
		case c := <-e.in:
			if c.Lost || len(c.IDs) > 0 {
				quiet.Reset(still)
			}
		case <-quiet.C:
			return
		case <-end:
			e.t.Fatal("changes are told without end")
		}
	}
}

// Hears waits until an ID is told, and returns all that are told until nothing more is. The
// test fails when that takes much too long.
func (e *Ear) Hears(what, id string) (ids []string) {
	e.t.Helper()
	began, end := time.Now(), time.After(patience)
	for !slices.Contains(ids, id) {
		select {
		case c := <-e.in:
			e.lost(what, c)
			ids = append(ids, c.IDs...)
		case <-end:
			e.t.Fatalf("%s: %s isn't told, but %v", what, id, ids)
		}
	}
	took := time.Since(began)
	e.t.Logf("%s: told after %s", what, took.Round(time.Millisecond))
	if took > late {
		e.t.Errorf("%s: told after %s, must be within %s, and is within %s on a machine that has time", what, took, late, within)
	}
	for quiet := time.After(500 * time.Millisecond); ; {
		select {
		case c := <-e.in:
			e.lost(what, c)
			ids = append(ids, c.IDs...)
		case <-quiet:
			slices.Sort(ids)
			return slices.Compact(ids)
		}
	}
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
		select {
		case c := <-e.in:
			if c.Lost {
				return
			}
		case <-end:
			e.t.Fatalf("%s: it isn't told as lost", what)
		}
	}
}

func (e *Ear) lost(what string, c node.Change) {
	e.t.Helper()
	if c.Lost {
		e.t.Errorf("%s: told as lost", what)
	}
}
