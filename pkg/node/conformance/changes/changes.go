package changes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// Subject is a module that tells changes, and has things of two reservations.
type Subject struct {
	Changes node.Changes
	// One and Other are the reservations' IDs.
	One, Other string
	// Change changes, under the module, something of one of the two that is told. It can be called again and again.
	Change func(t *testing.T, id string)
	// Foreign changes things like theirs that are no reservation's on this node.
	Foreign func(t *testing.T)
	// Appear makes something of each of these reservations appear, which the module doesn't know; nil where no such thing is told.
	Appear func(t *testing.T, ids []string)
	// Restart makes the module anew, like a restart of its process, and looks at everything, as a reader does at a stream's beginning.
	Restart func(t *testing.T) node.Changes
}

// Suite tests an implementation of node.Changes. Its parts share the subject; the restart is the last one.
func Suite(t *testing.T, s Subject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"first value", firstValue},
		{"signs of life", signsOfLife},
		{"whose things change is told", owners},
		{"nobody's things aren't told", foreign},
		{"changes that come fast", fast},
		{"two readers", twoReaders},
		{"end of a reader", readersEnd},
		{"on a bus", onBus},
	}
	t.Run("begins to hear", func(t *testing.T) { begins(t, s, Listen(t, s.Changes)) })
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, s) })
	}
	if s.Appear != nil {
		t.Run("slow reader", func(t *testing.T) { slowReader(t, s) })
	}
	t.Run("after a restart", func(t *testing.T) { restart(t, s) })
}

// begins waits until the module hears: what changes while it begins to may be told as lost.
func begins(t *testing.T, s Subject, e *Ear) {
	t.Helper()
	for range 5 {
		e.Calm()
		s.Change(t, s.One)
		if e.tells(s.One) {
			e.Calm()
			return
		}
	}
	t.Error("each change is told as lost")
}

// tells waits until an ID is told, or that changes were lost: then it is false.
func (e *Ear) tells(id string) bool {
	e.t.Helper()
	for end := time.After(patience); ; {
		c, comes := e.next(end)
		if !comes {
			e.t.Fatalf("%s isn't told", id)
		}
		if c.Lost || slices.Contains(c.IDs, id) {
			return !c.Lost
		}
	}
}

// firstValue tests that each stream begins with a value that says so. That it comes at once is tested by the best of
// several: any may have to wait for a processor.
func firstValue(t *testing.T, s Subject) {
	best, names := patience, map[uint64]bool{}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		in := s.Changes.Changes(ctx)
		first := expect.Receive(t, in)
		best = min(best, time.Since(began))
		if first.Number != 1 || !first.Lost {
			t.Errorf("the first value is %+v, must be number 1, and Lost", first)
		}
		names[first.Stream] = true
		cancel()
		ended(t, in)
	}
	if best > node.ChangesEvery/2 {
		t.Errorf("the first value comes after %s, must come at once", best)
	}
	if len(names) != 3 {
		t.Errorf("three streams have %d names", len(names))
	}
}

// signsOfLife tests that values come although nothing changes, by the best of several too.
func signsOfLife(t *testing.T, s Subject) {
	const most = node.ChangesEvery + time.Second
	e := Listen(t, s.Changes)
	e.value()
	apart := patience
	for try := 0; try < 3 && apart > most; try++ {
		began := time.Now()
		if c := e.value(); c.Lost || len(c.IDs) > 0 {
			t.Errorf("nothing changes, and %+v is told", c)
		}
		apart = time.Since(began)
	}
	if apart > most {
		t.Errorf("two values are %s apart, must be %s at most", apart, node.ChangesEvery)
	}
}

// value is the next value, which must come.
func (e *Ear) value() node.Change {
	e.t.Helper()
	c, comes := e.next(time.After(patience))
	if !comes {
		e.t.Fatalf("no value comes for %s", patience)
	}
	return c
}

// owners tests that a change is told as its owner's alone. That it is told soon is tested by the best of several; of each, the
// Ear tests that it doesn't take much too long.
func owners(t *testing.T, s Subject) {
	e := Listen(t, s.Changes)
	best := patience
	for try := range 6 {
		id := []string{s.One, s.Other}[try%2]
		e.Calm() // what the change before has as consequences
		s.Change(t, id)
		began := time.Now()
		e.HearsOnly("a change of "+id, id)
		if best = min(best, time.Since(began)-after); try >= 2 && best <= time.Second {
			return
		}
	}
	t.Errorf("a change is told after %s, must be within a second", best)
}

// foreign tests by a change that comes after those of nobody's things.
func foreign(t *testing.T, s Subject) {
	e := Listen(t, s.Changes)
	for range 3 {
		s.Foreign(t)
	}
	s.Change(t, s.One)
	e.HearsOnly("a change after some of nobody's things", s.One)
}

// fast tests that changes of one reservation share values while nobody reads, and aren't lost, however many there are.
func fast(t *testing.T, s Subject) {
	const often = 6
	e := Listen(t, s.Changes)
	for range often {
		s.Change(t, s.One)
	}
	all := e.hear("many changes of one", s.One)
	if ids := named(all); !slices.Equal(ids, []string{s.One}) {
		t.Errorf("told are %v, want %s alone", ids, s.One)
	}
	values := 0
	for _, c := range all {
		values += min(len(c.IDs), 1)
	}
	if values >= often {
		t.Errorf("%d changes were told in %d values while nobody read, must share some", often, values)
	}
	s.Change(t, s.One)
	e.HearsOnly("one more", s.One)
}

// slowReader tests that a reader who is too slow for the number of IDs gets Lost instead of them, and the others get all.
func slowReader(t *testing.T, s Subject) {
	const portion = node.ChangesMost / 4
	quick, slow := Listen(t, s.Changes), Listen(t, s.Changes)
	// The slow reader's next value takes ChangesMost at most, and as many may wait for the one after it.
	for first := 1; first <= 3*node.ChangesMost; first += portion {
		ids := make([]string, portion)
		for i := range ids {
			ids[i] = fmt.Sprintf("%d-7", first+i)
		}
		s.Appear(t, ids)
		quick.await("things of many appear", ids...)
	}
	slow.HearsLost("more IDs than a value may have")
	for _, e := range []*Ear{quick, slow} {
		e.Calm()
		s.Change(t, s.One)
		e.HearsOnly("a change after that", s.One)
	}
}

// twoReaders tests that each reader has a stream of its own, whose end is nothing to the other.
func twoReaders(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaves, stays := listen(t, s.Changes.Changes(ctx)), Listen(t, s.Changes)
	if leaves.last.Stream == stays.last.Stream {
		t.Errorf("both streams are %x", stays.last.Stream)
	}
	s.Change(t, s.One)
	for _, e := range []*Ear{leaves, stays} {
		e.HearsOnly("a change for two readers", s.One)
	}
	leaves.ends(cancel)
	s.Change(t, s.Other)
	stays.HearsOnly("a change after one of two readers has left", s.Other)
}

// readersEnd tests that a stream ends with its context, at any time.
func readersEnd(t *testing.T, s Subject) {
	for _, values := range []int{0, 1, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in := s.Changes.Changes(ctx)
		for range values {
			expect.Receive(t, in)
		}
		s.Change(t, s.One)
		cancel()
		ended(t, in)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended(t, s.Changes.Changes(ctx))
	// Nobody takes what waits to be read then, so the stream doesn't wait for that. Of several, as any may not have come so far.
	beside, left := Listen(t, s.Changes), 1
	for try := 0; try < 5 && left > 0; try++ {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in := s.Changes.Changes(ctx)
		beside.value()
		beside.value()
		cancel()
		left = ended(t, in)
	}
	if left > 0 {
		t.Error("a stream whose context has ended waits for a reader")
	}
}

// onBus tests that the module's stream is unbroken through its stub, for two readers who come in the middle of it.
func onBus(t *testing.T, s Subject) {
	const module = "module"
	client := conformance.OnBus(t, module, bus.Object(node.ChangesObject, node.ChangesVersion), s.Changes)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ears []*Ear
	for range 2 {
		in, err := stubs.NewChangesStub(client, module).Changes(ctx)
		expect.NoError(t, err)
		ears = append(ears, listen(t, in))
	}
	for _, id := range []string{s.One, s.Other} {
		s.Change(t, id)
		for _, e := range ears {
			e.HearsOnly("on a bus, a change of "+id, id)
		}
	}
	for _, e := range ears {
		e.ends(cancel)
	}
}

// restart tests that a stream that has begun anew can be told from the one before, and that the module hears again.
func restart(t *testing.T, s Subject) {
	before := expect.Receive(t, s.Changes.Changes(t.Context())).Stream
	next := s.Restart(t)
	in := next.Changes(t.Context())
	first := expect.Receive(t, in)
	if first.Stream == before || first.Number != 1 || !first.Lost {
		t.Errorf("after a restart the first value is %+v, must be number 1 and Lost, and not of stream %x", first, before)
	}
	e := &Ear{t: t, in: in, last: first}
	begins(t, s, e)
	for _, id := range []string{s.One, s.Other} {
		s.Change(t, id)
		e.HearsOnly("after a restart, a change of "+id, id)
	}
}
