package provision_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/node"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
	"github.com/croft-edge/croft/provision"
)

// inTold is inDrift of networks whose module tells what has changed.
func inTold(t *testing.T, test func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog)) {
	t.Helper()
	inDriftOf(t, &watchedProvisioner{tells: &mutable{hub: changes.New()}}, provision.Limits{}, test)
}

// asModule is the stream of a watchedProvisioner as that of a module.
type asModule struct{ *mutable }

// Changes implements node.Changes.
func (m asModule) Changes(ctx context.Context) <-chan node.Change {
	in, _ := m.mutable.Changes(ctx) // it has no error
	return in
}

// What the engine's tests are told, and how, is what modules tell.
func TestTheFakeOfChangesConforms(t *testing.T) {
	t.Parallel()
	told := &mutable{hub: changes.New()}
	changesconformance.Suite(t, changesconformance.Subject{
		Changes: asModule{told}, One: "1-1", Other: "2-1",
		Change:  func(_ *testing.T, id string) { told.hub.Tell(id) },
		Foreign: func(*testing.T) { told.hub.Tell("zdb-ssd0", "", "1-01") },
		Appear:  func(_ *testing.T, ids []string) { told.hub.Tell(ids...) },
		Restart: func(*testing.T) node.Changes {
			told = &mutable{hub: changes.New()}
			return asModule{told}
		},
	})
}

// told is the longest time until what a module tells is back.
const told = 2 * time.Second

func TestToldDriftIsRestoredAtOnceAndAlone(t *testing.T) {
	inTold(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		one, other := w.network("net1"), w.network("net2")
		for i := range 20 {
			time.Sleep(time.Duration(40+i) * time.Second)
			p.looks()
			p.lose(other) // nobody tells
			p.lose(one)
			p.tells.hub.Tell(one)
			time.Sleep(told)
			looks := p.looks()
			if slices.ContainsFunc(looks, func(ids []string) bool { return ids == nil }) {
				continue // the usual look at everything came just then
			}
			if !slices.Contains(p.listed(), one) || slices.Contains(p.listed(), other) {
				t.Fatalf("after %s there is %v", told, p.listed())
			}
			for _, ids := range looks {
				if !slices.Equal(ids, []string{one}) {
					t.Fatalf("looked at %v, told was %s alone", ids, one)
				}
			}
			time.Sleep(back - told)
			if !slices.Contains(p.listed(), other) {
				t.Fatalf("what nobody tells isn't back after %s", back)
			}
		}
		if s := n.status(t, one); s.Restored != 20 || s.Drift == nil || s.Drift.What != "gone" {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestDriftWithAllStreamsCut(t *testing.T) {
	inTold(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		net := w.network("net1")
		for i := range 20 {
			p.tells.set(false)
			time.Sleep(time.Minute)
			p.tells.set(true)
			time.Sleep(time.Duration(i) * time.Second) // the cut may not be noticed yet
			p.lose(net)
			p.tells.hub.Tell(net)
			time.Sleep(back)
			if !slices.Equal(p.listed(), []string{net}) {
				t.Fatalf("%d: not back after %s", i, back)
			}
		}
		if lines := log.said("stream of changes is cut"); len(lines) != 20 {
			t.Errorf("%d lines say that the stream is cut, want one each time: %q", len(lines), lines)
		}
	})
}

// A stream may name anything: what has no record is nobody's, and never arrives.
func TestUnknownIDsAreNoArrivals(t *testing.T) {
	inTold(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		net := w.network("net1")
		p.mu.Lock()
		p.have["77-1"] = true
		p.mu.Unlock()
		time.Sleep(time.Minute)
		before, steps := n.engine.Orphans(), len(n.steps.all())
		p.looks()
		for i := range 2000 {
			p.tells.hub.Tell("77-1", fmt.Sprintf("%d-9", i+1))
			time.Sleep(10 * time.Millisecond)
		}
		for _, ids := range p.looks() {
			if ids != nil {
				t.Fatalf("looked at %v", ids)
			}
		}
		if after := n.engine.Orphans(); len(before) != 1 || !slices.Equal(before, after) || len(n.steps.all()) > steps+20 {
			t.Errorf("orphans were %v and are %v, after %d steps", before, after, len(n.steps.all())-steps)
		}
		if !slices.Equal(p.listed(), []string{"77-1", net}) && !slices.Equal(p.listed(), []string{net, "77-1"}) {
			t.Errorf("there is %v", p.listed())
		}
	})
}

// A workload that drifts again and again is left alone for growing times, however often
// its module tells that it has changed.
func TestToldDriftBacksOff(t *testing.T) {
	inTold(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		net := w.network("net1")
		p.sticks(true)
		p.change(net, "another program removes its route")
		for range 3600 {
			p.tells.hub.Tell(net)
			time.Sleep(time.Second)
		}
		if calls := len(p.calls()); calls < 8 || calls > 25 {
			t.Errorf("%d attempts in an hour", calls)
		}
	})
}
