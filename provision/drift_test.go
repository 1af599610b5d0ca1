package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// driftLog is the node's log, read while it runs.
type driftLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *driftLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// said returns the lines that contain all of the words.
func (l *driftLog) said(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// inDrift runs a node that offers networks and volumes, with a real node's limits.
func inDrift(t *testing.T, test func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog)) {
	t.Helper()
	inDriftWith(t, provision.Limits{}, test)
}

// inDriftWith is inDrift with limits other than a node's.
func inDriftWith(t *testing.T, limits provision.Limits, test func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog)) {
	t.Helper()
	inDriftOf(t, &watchedProvisioner{}, limits, test)
}

// inDriftOf is inDriftWith of a provisioner's networks.
func inDriftOf(t *testing.T, p *watchedProvisioner, limits provision.Limits, test func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog)) {
	t.Helper()
	log := &driftLog{}
	inWorld(t, func(w *world) {
		w.limits = limits
		w.log = zerolog.New(log)
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: p}
	}, func(t *testing.T, w *world, n *incarnation) { test(t, w, n, p, log) })
}

// inSlowDrift is inDrift with a look each five minutes: over days, a look each ten seconds
// costs much and shows no more.
func inSlowDrift(t *testing.T, test func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog)) {
	t.Helper()
	inDriftWith(t, provision.Limits{Drift: 5 * time.Minute, Look: 5 * time.Minute}, test)
}

// network pushes a network of that name and waits for it.
func (w *world) network(name string) string {
	w.t.Helper()
	id := w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData(name), yearLong))
	w.answered(id, workload.StateOK)
	return id
}

func (i *incarnation) status(t *testing.T, id string) provision.WorkloadStatus {
	t.Helper()
	all, err := i.engine.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no status of %s", id)
	return provision.WorkloadStatus{}
}

// back is the longest time until a missing workload is back.
const back = 30 * time.Second

// slowBack is the same in inSlowDrift.
const slowBack = 15 * time.Minute

func TestDriftIsRestoredWithin30SecondsAndLogged(t *testing.T) {
	inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		net, volume := w.network("net1"), w.volume(yearLong)
		w.answered(volume, workload.StateOK)
		time.Sleep(time.Hour)
		if calls := p.calls(); len(calls) != 1 || len(log.said("drifted")) != 0 {
			t.Fatalf("nothing differs, and: %v, %q", calls, log.said("drifted"))
		}

		for i, do := range []struct {
			what, id string
			damage   func()
			isBack   func() bool
		}{
			{"gone", net, func() { p.lose(net) }, func() bool { return slices.Equal(p.listed(), []string{net}) }},
			{"its bridge has no address", net, func() { p.change(net, "its bridge has no address") }, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.drift[net] == "" }},
			{"gone", volume, func() { w.storage.lose(volume) }, func() bool { return len(w.storage.names()) == 1 }},
		} {
			before, told := len(p.calls())+w.storage.creations(volume), len(log.said("restored: the workload"))
			do.damage()
			time.Sleep(back)
			if !do.isBack() || w.phase(do.id) != store.Deployed {
				t.Fatalf("%s of %s: not back after %s", do.what, do.id, back)
			}
			if after := len(p.calls()) + w.storage.creations(volume); after != before+1 {
				t.Errorf("%s of %s: attempted %d times, want once", do.what, do.id, after-before)
			}
			if got := log.said(`"level":"warn"`, `"step":"drift"`, `"id":"`+do.id+`"`, `"what":"`+do.what+`"`, `"type":`); len(got) != 1 {
				t.Errorf("%s of %s is said so: %q", do.what, do.id, got)
			}
			if got := log.said("restored: the workload", `"id":"`+do.id+`"`); len(got) == 0 || len(log.said("restored: the workload")) != told+1 {
				t.Errorf("%s of %s: that it is back is said so: %q", do.what, do.id, got)
			}
			s := n.status(t, do.id)
			if want := []int{1, 2, 1}[i]; s.Restored != want || s.Drift == nil || s.Drift.What != do.what || s.Drift.At.IsZero() {
				t.Errorf("status is %+v", s)
			}
		}
		if got := n.engine.Drifts(); !maps.Equal(got, map[workload.Type]uint64{workload.TypeNetwork: 2, workload.TypeVolume: 1}) {
			t.Errorf("counted are %v", got)
		}
		if len(w.explorer.all(net)) != 1 || len(w.explorer.all(volume)) != 1 {
			t.Error("a user was told what isn't news")
		}
		w.remove(net)
		w.answered(net, workload.StateDeleted)
		if s := n.status(t, net); s.Restored != 0 || s.Drift != nil {
			t.Errorf("what has ended still has %+v", s)
		}
	})
}

func TestDownModuleDelaysNoOthers(t *testing.T) {
	for name, hang := range map[string]bool{"fails": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
				net, volume := w.network("net1"), w.volume(yearLong)
				w.answered(volume, workload.StateOK)
				p.fail(node.Errorf(node.Transient, "cannot list: no such socket"), hang)
				p.lose(net)
				time.Sleep(time.Minute)
				for range 5 {
					w.storage.lose(volume)
					time.Sleep(back)
					if len(w.storage.names()) != 1 {
						t.Fatal("the volume isn't back beside a module that is down")
					}
					start := time.Now()
					w.answered(w.volume(func(r *workload.Reservation) { r.Duration = 10 * time.Second }), workload.StateOK)
					if took := time.Since(start); took > 2*time.Second {
						t.Fatalf("a reservation waited %s", took)
					}
					w.until("it has expired", func() bool { return len(w.storage.names()) == 1 })
				}
				time.Sleep(time.Hour)
				if got := log.said("cannot compare"); len(got) != 1 {
					t.Errorf("said %d times that it is down", len(got))
				}
				if len(log.said("drifted", net)) != 0 || w.phase(net) != store.Deployed {
					t.Error("what can't be seen counts as gone")
				}
				p.fail(nil, false)
				time.Sleep(back + 10*time.Second) // a hanging look first reaches its deadline
				if !slices.Equal(p.listed(), []string{net}) || n.status(t, net).Restored != 1 {
					t.Errorf("after the module is back there is %v", p.listed())
				}
			})
		})
	}
}

func TestADriftThatCannotBeMadeRightBacksOff(t *testing.T) {
	t.Run("its attempts fail", func(t *testing.T) {
		inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
			net := w.network("net1")
			p.answering(func(context.Context, *workload.Reservation) (json.RawMessage, error) {
				return nil, node.Errorf(node.Refused, "cannot make it: another program holds the port")
			})
			p.lose(net)
			time.Sleep(time.Hour)
			if calls := len(p.calls()); calls < 8 || calls > 25 {
				t.Errorf("%d attempts in an hour", calls)
			}
			if len(log.said("drifted")) != 1 || len(log.said("restored: the workload")) != 0 || n.engine.Drifts()[workload.TypeNetwork] != 1 {
				t.Errorf("said: %q", log.said("drift"))
			}
			if w.phase(net) != store.Retry {
				t.Errorf("phase %s: what was deployed is never given up", w.phase(net))
			}
			w.answered(net, workload.StateError) // its user is told, by the rules for any attempt
			p.answering(nil)
			w.answered(net, workload.StateOK)
			if s := n.status(t, net); s.Restored != 1 || len(log.said("restored: the workload")) != 1 {
				t.Errorf("status %+v", s)
			}
		})
	})
	t.Run("it doesn't stay right", func(t *testing.T) {
		inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
			net := w.network("net1")
			p.sticks(true)
			p.change(net, "another program removes its route")
			time.Sleep(time.Hour)
			if calls := len(p.calls()); calls < 8 || calls > 25 {
				t.Errorf("%d attempts in an hour", calls)
			}
			if lines := len(log.said("drift")); lines > 60 {
				t.Errorf("%d lines in an hour", lines)
			}
			p.change(net, "")
			time.Sleep(15 * time.Minute)
			p.sticks(false)
			p.change(net, "its route is gone") // after a healthy period, earlier drifts don't count
			time.Sleep(back)
			if p.mu.Lock(); p.drift[net] != "" {
				t.Error("not back")
			}
			p.mu.Unlock()
		})
	})
}

// A network that was updated has older records that are still deployed.
func TestReplacedWorkloadIsNotMissing(t *testing.T) {
	inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		const updates = 50
		var ids []string
		for range updates {
			ids = append(ids, w.network("net1"))
			for _, old := range ids[:len(ids)-1] {
				p.lose(old) // the module keeps one, under the newest label
			}
			time.Sleep(time.Second)
		}
		newest := ids[updates-1]
		before := len(n.steps.all())
		time.Sleep(time.Hour)
		if calls := p.calls(); len(calls) != updates || len(log.said("drifted")) != 0 || len(n.steps.all()) > before+800 {
			t.Fatalf("calls are %v, %d steps, said %q", calls[updates:], len(n.steps.all())-before, log.said("drifted"))
		}
		p.lose(newest)
		time.Sleep(back)
		if !slices.Equal(p.listed(), []string{newest}) || len(p.calls()) != updates+1 {
			t.Fatalf("on the node is %v, want %s; calls %v", p.listed(), newest, p.calls()[updates:])
		}
		w.restart(n)
		time.Sleep(time.Minute)
		if !slices.Equal(p.listed(), []string{newest}) || len(p.calls()) != updates+1 {
			t.Fatalf("after a restart there is %v", p.listed())
		}
	})
}

// Workloads that are being made or leaving aren't there: that isn't drift.
func TestDriftIgnoresWorkloadsInFlight(t *testing.T) {
	inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		p.answering(func(ctx context.Context, _ *workload.Reservation) (json.RawMessage, error) {
			select {
			case <-time.After(90 * time.Second):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		slow := w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData("slow"), yearLong))
		w.answered(slow, workload.StateOK)
		p.answering(nil)
		p.mu.Lock()
		p.decommission = func(context.Context, *workload.Reservation) error {
			p.lose(slow) // half gone
			return node.Errorf(node.Busy, "cannot take it down: a container is in it")
		}
		p.mu.Unlock()
		w.remove(slow)
		time.Sleep(5 * time.Minute)
		provisions := 0
		for _, call := range p.calls() {
			if strings.HasPrefix(call, "provision") {
				provisions++
			}
		}
		if provisions != 1 || len(log.said("drifted")) != 0 || n.engine.Drifts()[workload.TypeNetwork] != 0 {
			t.Fatalf("calls %v, said %q", p.calls(), log.said("drifted"))
		}
	})
}

func TestAnOrphanThatAppearsWhileTheNodeRuns(t *testing.T) {
	inSlowDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		kept := w.network("net1")
		p.mu.Lock()
		p.have["77-1"] = true
		p.mu.Unlock()
		time.Sleep(slowBack)
		if got := n.engine.Orphans(); len(got) != 1 || got[0].ID != "77-1" || got[0].Type != workload.TypeNetwork || got[0].Since.IsZero() {
			t.Fatalf("orphans are %+v", got)
		}
		w.clock.set(0, false, false)
		time.Sleep(6 * day)
		w.clock.set(30*day, true, false)
		time.Sleep(12 * time.Hour)
		if !slices.Contains(p.listed(), "77-1") {
			t.Fatal("removed on the explorer's word alone")
		}
		time.Sleep(12*time.Hour + slowBack) // seven days have passed, whatever the clocks say
		if !slices.Equal(p.listed(), []string{kept}) || len(n.engine.Orphans()) != 0 {
			t.Fatalf("on the node is %v, orphans %v", p.listed(), n.engine.Orphans())
		}
		if calls := p.calls(); !slices.Contains(calls, "remove 77-1") || slices.Contains(calls, "decommission 77-1") {
			t.Errorf("its label is all there is, and it is taken down by %q", calls)
		}
		if lines := log.said("orphan"); len(lines) != 2 {
			t.Errorf("said %q", lines)
		}
	})
}

// Several orphans have one ID, beside the workload that a record wants: each has its own
// grace, and is removed by itself. None is taken for another.
func TestOrphansOfOneID(t *testing.T) {
	inSlowDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		kept := w.network("net1")
		own := provisioner.Label{ID: kept, Hash: w.record(kept).Hash}
		first, second := provisioner.Label{ID: kept, Hash: workload.Hash{1}}, provisioner.Label{ID: kept, Hash: workload.Hash{2}}
		p.labels(own, first)
		time.Sleep(3 * day)
		p.labels(own, first, second)
		time.Sleep(slowBack)
		if got := n.engine.Orphans(); len(got) != 2 || got[0].ID != kept || got[0].Hash != first.Hash || got[1].Hash != second.Hash || got[0].Since.Equal(got[1].Since) {
			t.Fatalf("orphans are %+v", got)
		}
		time.Sleep(4*day + slowBack)
		if got := p.labelled(); !slices.Equal(got, []provisioner.Label{second, own}) && !slices.Equal(got, []provisioner.Label{own, second}) {
			t.Fatalf("after the first one's grace there is %v", got)
		}
		p.blocked(node.Errorf(node.Busy, "cannot take it down: it has members"))
		time.Sleep(3*day + slowBack)
		if got := n.engine.Orphans(); len(got) != 1 || got[0].Hash != second.Hash || len(p.labelled()) != 2 {
			t.Fatalf("while it is blocked orphans are %+v, there is %v", got, p.labelled())
		}
		p.blocked(nil)
		time.Sleep(time.Hour)
		if got := p.labelled(); !slices.Equal(got, []provisioner.Label{own}) || len(n.engine.Orphans()) != 0 {
			t.Fatalf("in the end there is %v, orphans %v", got, n.engine.Orphans())
		}
		p.labels(first)
		time.Sleep(slowBack)
		if s, err := n.engine.StatusOf(kept); err != nil || s.Restored != 1 || !strings.Contains(s.Drift.What, "another reservation") {
			t.Fatalf("in its place is another's, and it is %+v, %v", s, err)
		}
		if got := p.labelled(); !slices.Contains(got, own) || !slices.Contains(got, first) {
			t.Errorf("made right, there is %v", got)
		}
	})
}

func TestAnOrphanThatCannotBeRemovedIsTriedEverMoreSeldom(t *testing.T) {
	inDriftWith(t, provision.Limits{Grace: time.Hour}, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		p.mu.Lock()
		p.have = map[string]bool{"77-1": true}
		p.decommission = func(context.Context, *workload.Reservation) error {
			return node.Errorf(node.Busy, "cannot take it down: it has members")
		}
		p.mu.Unlock()
		time.Sleep(time.Hour + time.Minute)
		before := len(p.calls())
		time.Sleep(time.Hour)
		if calls := len(p.calls()) - before; calls < 5 || calls > 100 {
			t.Errorf("%d removals in an hour", calls)
		}
		p.lose("77-1")
		time.Sleep(back)
		if got := n.engine.Orphans(); len(got) != 0 {
			t.Errorf("what has gone by itself is still listed: %v", got)
		}
	})
}

// A record that a forger has changed is neither made again nor logged over and over.
func TestDriftOfUnverifiedRecordIsLoggedOnce(t *testing.T) {
	inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, log *driftLog) {
		net := w.network("net1")
		rec, err := w.records.Record(net)
		if err != nil {
			t.Fatal(err)
		}
		tampered := *rec.Reservation
		tampered.Data = json.RawMessage(w.networkData("net2"))
		rec.Reservation = &tampered
		if _, err := w.records.Write(rec); err != nil {
			t.Fatal(err)
		}
		p.lose(net)
		time.Sleep(time.Hour)
		if len(p.calls()) != 1 || len(log.said("doesn't verify")) != 1 {
			t.Fatalf("calls %v, said %d times", p.calls(), len(log.said("doesn't verify")))
		}
	})
}

// TestTheNodeConverges takes random workloads away, changes others and plants orphans,
// while users reserve and delete, and asserts that the node converges.
func TestTheNodeConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.IntRange(0, 5), 5, 40).Draw(rt, "ops")
		pick := rapid.SliceOfN(rapid.IntRange(0, 1000), len(ops), len(ops)).Draw(rt, "pick")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 15), len(ops), len(ops)).Draw(rt, "pauses")
		inDrift(t, func(t *testing.T, w *world, n *incarnation, p *watchedProvisioner, _ *driftLog) {
			var live []string
			for i, op := range ops {
				time.Sleep(time.Duration(pauses[i]) * time.Second)
				if op == 0 || len(live) == 0 {
					name := fmt.Sprintf("net%d", i)
					live = append(live, w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData(name), yearLong)))
					continue
				}
				at := pick[i] % len(live)
				switch op {
				case 1:
					p.lose(live[at])
				case 2:
					p.change(live[at], "its bridge is gone")
				case 3:
					w.remove(live[at])
					live = slices.Delete(live, at, at+1)
				case 4:
					p.answering(func(context.Context, *workload.Reservation) (json.RawMessage, error) {
						p.answering(nil)
						return nil, node.Errorf(node.Transient, "cannot make it this once")
					})
				case 5:
					w.restart(n)
				}
			}
			time.Sleep(2 * back)
			slices.Sort(live)
			if got := p.listed(); !slices.Equal(got, live) {
				rt.Fatalf("after %v on the node is %v, want %v", ops, got, live)
			}
			for _, id := range live {
				if p.mu.Lock(); p.drift[id] != "" {
					rt.Errorf("%s still differs: %s", id, p.drift[id])
				}
				p.mu.Unlock()
				if w.phase(id) != store.Deployed {
					rt.Errorf("%s is %s", id, w.phase(id))
				}
			}
			if orphans := n.engine.Orphans(); len(orphans) != 0 {
				rt.Errorf("orphans %v", orphans)
			}
		})
	})
}
