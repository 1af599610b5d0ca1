package provision_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// Each test here is a defect of the implementation that the published API comes from, by its number in
// the list of those: its name or comment tells the defect; it asserts croft's behaviour.

// inWorld runs a test with a node in it, by the bubble's clock.
func inWorld(t *testing.T, prepare func(w *world), test func(t *testing.T, w *world, n *incarnation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { _ = w.records.Close() }()
		if prepare != nil {
			prepare(w)
		}
		n := w.start(newStepper(""))
		defer n.stop(t)
		time.Sleep(time.Second) // reservations signed from here on are younger than the store
		test(t, w, n)
	})
}

// restart ends the node in order and starts it from its disk.
func (w *world) restart(n *incarnation) {
	w.t.Helper()
	n.stop(w.t)
	if err := w.records.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.records = openStore(w.t, w.dir)
	*n = *w.start(newStepper(""))
}

func TestSeedDefect01NothingIsTakenUnchecked(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		good := func() *workload.Reservation { return w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil) }
		spoil := map[string]func(r *workload.Reservation){
			"data":      func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":9,"type":"SSD"}`) },
			"duration":  func(r *workload.Reservation) { r.Duration *= 2 },
			"created":   func(r *workload.Reservation) { r.Created = r.Created.Add(time.Second) },
			"user":      func(r *workload.Reservation) { r.User = w.key.ID() },
			"type":      func(r *workload.Reservation) { r.Type = workload.TypeZDB },
			"node":      func(r *workload.Reservation) { r.NodeID = w.user.ID() },
			"unsigned":  func(r *workload.Reservation) { r.Signature = nil },
			"version":   func(r *workload.Reservation) { r.Version = 0 },
			"nonce":     func(r *workload.Reservation) { r.Nonce = make([]byte, workload.NonceSize) },
			"signature": func(r *workload.Reservation) { r.Signature[7] ^= 1 },
		}
		for _, edit := range spoil {
			r := good()
			edit(r)
			w.explorer.push(r)
		}
		foreign := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.NodeID = w.user.ID() })
		w.explorer.push(foreign)
		last := w.volume(nil)
		w.answered(last, workload.StateOK)
		recs, err := w.records.List()
		if err != nil || len(recs) != 1 {
			t.Fatalf("%d records, %v: forged reservations cost a durable write", len(recs), err)
		}
		if names := w.storage.names(); !slices.Equal(names, []string{last}) {
			t.Fatalf("on the node is %v, want %s alone", names, last)
		}
	})
}

// The seed's expiry scan took a read lock twice while a writer waited.
func TestSeedDefect02ExpiryDoesNotHangTheEngine(t *testing.T) {
	const stored, arriving = 400, 100
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		for range stored {
			w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		}
		w.until("all are there", func() bool { return len(w.storage.names()) == stored })
		time.Sleep(time.Until(w.clock.wall().Add(time.Hour - 2*time.Second)))
		var last string
		for range arriving { // while the others expire
			last = w.volume(nil)
			time.Sleep(10 * time.Millisecond)
		}
		w.answered(last, workload.StateOK)
		w.until("the old ones are gone, the new ones there", func() bool { return len(w.storage.names()) == arriving })
	})
}

// A tenant's reservation made the seed panic, at each start again.
func TestSeedDefect03OnePanicDoesNotLoopTheNode(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		w.storage.hooked(func(call string) {
			if call == "create 1-1" {
				panic("slice bounds out of range")
			}
		})
		poison := w.volume(nil)
		good := w.volume(nil)
		w.answered(good, workload.StateOK)
		r := w.answered(poison, workload.StateError)
		if strings.Contains(r.Error, "slice") || !strings.Contains(r.Error, "internal error of the node") {
			t.Fatalf("the user is told %q", r.Error)
		}
		w.restart(n)
		next := w.volume(nil)
		w.answered(next, workload.StateOK)
		w.storage.hooked(nil)
		w.answered(poison, workload.StateOK)
	})
}

func TestSeedDefect04BusFailuresAreErrors(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failing("list", node.Errorf(node.Transient, "no server"), node.Errorf(node.Unknown, "no answer"))
	}, func(t *testing.T, w *world, _ *incarnation) {
		w.storage.failing("create 1-1", node.Errorf(node.Unknown, "no answer within 10s"), errors.New("garbage reply"))
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		if made := w.storage.creations(id); made != 1 {
			t.Fatalf("made %d times", made)
		}
	})
}

func TestSeedDefect05AContainerWithoutAddressIsAnError(t *testing.T) {
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, _ *incarnation) {
		id := w.explorer.push(w.reserve(workload.TypeContainer, `{"flist":"https://hub.example/x.flist","flist_storage":"zdb://hub.example:9900",
			"env":{},"entrypoint":"/bin/sh","interactive":false,"mounts":[],"network":{"network_id":"net1","ips":[]},"capacity":{"cpu":1,"memory":64}}`, nil))
		r := w.answered(id, workload.StateError)
		if !strings.Contains(r.Error, "ips") || len(prov.calls()) != 0 {
			t.Fatalf("told %q, provisioner heard %v", r.Error, prov.calls())
		}
	})
}

func TestSeedDefect06And07ResultsAreStoredThenSentUntilTaken(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(nil)
		w.until("it is made", func() bool { return len(w.storage.names()) == 1 })
		w.answered(id, workload.StateOK)
		other := w.volume(nil)
		w.explorer.setAway(true)
		w.until("it is made too", func() bool { return len(w.storage.names()) == 2 || w.storage.creations(other) == 0 })
		w.restart(n)
		time.Sleep(time.Hour)
		w.explorer.setAway(false)
		w.answered(other, workload.StateOK)
		if made := w.storage.creations(other); made != 1 {
			t.Fatalf("made %d times", made)
		}
	})
}

func TestSeedDefect08EveryRefusalIsAnswered(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		future := w.clock.wall().Add(time.Hour)
		for name, tt := range map[string]struct {
			typ  workload.Type
			data string
			edit func(r *workload.Reservation)
			want string
		}{
			"unknown type":      {"spaceship", `{}`, nil, "spaceship"},
			"type not offered":  {workload.TypeKubernetes, `{}`, nil, "isn't offered by this node"},
			"zero duration":     {workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Duration = 0 }, "duration"},
			"negative duration": {workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Duration = -time.Hour }, "duration"},
			"endless":           {workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Duration = 1<<63 - 1 }, "duration"},
			"future":            {workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Created = future }, "created"},
			"zero size":         {workload.TypeVolume, `{"size":0,"type":"SSD"}`, nil, "size"},
			"negative size":     {workload.TypeVolume, `{"size":-1,"type":"SSD"}`, nil, "size"},
			"overflowing size":  {workload.TypeVolume, `{"size":17179869185,"type":"SSD"}`, nil, "size"},
			"unknown field":     {workload.TypeVolume, `{"size":1,"type":"SSD","color":"red"}`, nil, "color"},
			"wrong case":        {workload.TypeVolume, `{"Size":1,"type":"SSD"}`, nil, "Size"},
			"wrong disk":        {workload.TypeVolume, `{"size":1,"type":"TAPE"}`, nil, "type"},
			"no object":         {workload.TypeVolume, `[1]`, nil, "data"},
		} {
			id := w.explorer.push(w.reserve(tt.typ, tt.data, tt.edit))
			r := w.answered(id, workload.StateError)
			if !strings.Contains(r.Error, tt.want) {
				t.Errorf("%s: the user is told %q, want it to name %q", name, r.Error, tt.want)
			}
			// An expired reservation needs no tombstone once it is answered.
			if rec, err := w.records.Record(id); err == nil && rec.Phase != store.Refused {
				t.Errorf("%s: phase is %s", name, rec.Phase)
			}
		}
		if names := w.storage.names(); len(names) != 0 {
			t.Fatalf("on the node is %v", names)
		}
	})
}

func TestSeedDefect09AFailureIsTriedAgainWithoutARestart(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		w.storage.failing("create 1-1", slices.Repeat([]error{node.Errorf(node.Transient, "cannot create: storage restarts")}, 5)...)
		id := w.volume(nil)
		r := w.answered(id, workload.StateError)
		if !strings.Contains(r.Error, "storage restarts") || !strings.Contains(r.Error, "tried again") {
			t.Fatalf("the user is told %q", r.Error)
		}
		status, err := n.engine.Status()
		if err != nil || len(status) != 1 || status[0].Attempts < 3 || status[0].Error == "" || status[0].Pending != "provision" || status[0].NextAttempt.IsZero() {
			t.Fatalf("status is %+v, %v", status, err)
		}
		w.answered(id, workload.StateOK)
	})
}

func TestSeedDefect10And11ATornRecordCostsItselfOnly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		torn := w.volume(nil)
		other := w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		w.answered(torn, workload.StateOK)
		w.answered(other, workload.StateOK)
		n.stop(t)
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(w.dir, torn), 40); err != nil {
			t.Fatal(err)
		}
		w.records = openStore(t, w.dir)
		*n = *w.start(newStepper(""))
		// Its reservation comes again, and adopts the workload on the node.
		w.until("it is known again", func() bool {
			rec, err := w.records.Record(torn)
			return err == nil && rec.Phase == store.Deployed
		})
		if made := w.storage.creations(torn); made != 1 || len(n.engine.Orphans()) != 0 {
			t.Fatalf("made %d times, orphans %v", made, n.engine.Orphans())
		}
		time.Sleep(time.Hour)
		w.answered(other, workload.StateExpired)
		w.remove(torn)
		w.answered(torn, workload.StateDeleted)
	})
}

func TestSeedDefect12CountersAreRightAfterARestart(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		first, second := w.volume(nil), w.volume(nil)
		w.answered(first, workload.StateOK)
		w.answered(second, workload.StateOK)
		w.restart(n)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		counters := n.engine.Counters(ctx)
		if got := <-counters; got.Volume != 2 {
			t.Fatalf("the first value after a restart is %+v, want 2 volumes", got)
		}
		w.remove(first)
		w.remove(second)
		start := time.Now()
		for got := range counters {
			if got.Volume < 0 || got.Volume > 2 {
				t.Fatalf("counters are %+v", got)
			}
			if got.Volume == 0 {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("counters stay at %+v", got)
			}
		}
	})
}

func TestSeedDefect13CountersEndWithTheirContext(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, _ *world, n *incarnation) {
		ctx, cancel := context.WithCancel(context.Background())
		counters := n.engine.Counters(ctx)
		start := time.Now()
		for range 10 {
			<-counters
		}
		if took := time.Since(start); took < 17*time.Second || took > 19*time.Second {
			t.Fatalf("ten values of an idle node took %s, want one at once and one every 2 s", took)
		}
		cancel()
		start = time.Now()
		for range counters {
			continue
		}
		if took := time.Since(start); took > time.Second {
			t.Fatalf("closed after %s", took)
		}
	})
}

func TestSeedDefect14TheOwnerCacheAsksTheRemote(t *testing.T) {
	local := getter{"1-1": {User: "alice"}}
	remote := getter{"1-1": {User: "mallory"}, "2-1": {User: "bob"}}
	cache := provision.NewCache(local, remote)
	for id, want := range map[string]string{"1-1": "alice", "2-1": "bob"} {
		for range 2 {
			if owner, err := cache.OwnerOf(id); err != nil || owner != want {
				t.Errorf("owner of %s is %q, %v; want %s", id, owner, err, want)
			}
		}
	}
	delete(remote, "2-1")
	if owner, err := cache.OwnerOf("2-1"); err != nil || owner != "bob" {
		t.Errorf("what was learned is forgotten: %q, %v", owner, err)
	}
	for _, c := range []provision.OwnerCache{cache, provision.NewCache(nil, nil), provision.NewCache(nil, getter{"3-1": nil})} {
		if owner, err := c.OwnerOf("3-1"); err == nil {
			t.Errorf("owner of what nobody knows is %q", owner)
		}
	}
}

// getter returns reservations by ID.
type getter map[string]*workload.Reservation

func (g getter) Get(id string) (*workload.Reservation, error) {
	r, ok := g[id]
	if !ok {
		return nil, fmt.Errorf("cannot get %s: there is none", id)
	}
	return r, nil
}

func TestSeedDefect15And16ASilentExplorerBlocksNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		w.answered(id, workload.StateOK)
		time.Sleep(time.Hour) // its polls hang all the time: nothing is new
		w.answered(id, workload.StateExpired)
		start := time.Now()
		n.stop(t)
		if took := time.Since(start); took > time.Second {
			t.Fatalf("stopped after %s", took)
		}
		*n = *w.start(newStepper(""))
	})
}

func TestSeedDefect18ARestartFetchesNoHistory(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		for range 5 {
			w.answered(w.volume(nil), workload.StateOK)
		}
		polls := w.explorer.asked()
		w.restart(n)
		time.Sleep(10 * time.Minute)
		for _, point := range n.steps.all() {
			if strings.Contains(point, "poll") || strings.Contains(point, "send") {
				t.Fatalf("after a restart: %s", point)
			}
		}
		if asked := w.explorer.asked() - polls; asked > 20 {
			t.Fatalf("%d polls in 10 idle minutes", asked)
		}
	})
}

func TestSeedDefect33AJumpingClockExpiresNothing(t *testing.T) {
	year := 365 * 24 * time.Hour
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(func(r *workload.Reservation) { r.Duration = 24 * time.Hour })
		w.answered(id, workload.StateOK)
		for _, offset := range []time.Duration{year, -year, -30 * year} {
			w.clock.set(offset, false, false)
			waiting := w.volume(nil)
			time.Sleep(time.Hour)
			w.restart(n)
			time.Sleep(time.Hour)
			if w.phase(id) != store.Deployed || len(w.storage.names()) == 0 {
				t.Fatalf("by a clock that is %s off, %s is %s", offset, id, w.phase(id))
			}
			w.clock.set(0, true, true)
			w.until("what came meanwhile is answered", func() bool { return w.explorer.result(waiting) != nil })
		}
		if got := w.explorer.result(id).State; got != workload.StateOK {
			t.Fatalf("the user of %s was told %s", id, got)
		}
	})
}

func TestSeedDefect34RestoresWithoutTheExplorer(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		kept, gone := w.volume(nil), w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		w.answered(kept, workload.StateOK)
		w.answered(gone, workload.StateOK)
		w.explorer.setAway(true)
		w.storage.lose(kept)
		w.storage.lose(gone)
		n.stop(t)
		time.Sleep(2 * time.Hour)
		*n = *w.start(newStepper(""))
		w.until("it is there again", func() bool { return slices.Equal(w.storage.names(), []string{kept}) })
		time.Sleep(time.Hour)
		if w.storage.creations(gone) != 1 || w.phase(gone) != store.Ended {
			t.Fatalf("what had expired is %s, made %d times", w.phase(gone), w.storage.creations(gone))
		}
	})
}

func TestSeedDefect35APushIsPickedUpAtOnce(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		for i, idle := range []time.Duration{0, time.Second, time.Minute, time.Hour} {
			time.Sleep(idle)
			start := time.Now()
			w.volume(nil)
			synctest.Wait()
			if took := time.Since(start); len(w.storage.names()) != i+1 || took > 100*time.Millisecond {
				t.Fatalf("after %s idle: %v after %s", idle, w.storage.names(), took)
			}
		}
	})
}

func TestSeedDefect36AnyFormOfTheSameDataIsAccepted(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		for _, data := range []string{"{\n\t\"type\": \"SSD\",\n\t\"size\": 1\n}", `{"size":1e0,"type":"\u0053SD"}`, ` {"type":"SSD","size":1} `} {
			r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
			r.Data = json.RawMessage(data)
			w.answered(w.explorer.push(r), workload.StateOK)
		}
	})
}

// The seed's counters used 1.96 s of processor time in 3 s after their end.
func TestNothingSpinsOnAnIdleNode(t *testing.T) {
	w := newWorld(t)
	n := w.start(newStepper(""))
	ctx, cancel := context.WithCancel(context.Background())
	<-n.engine.Counters(ctx)
	cancel()
	before := processorTime(t)
	<-time.After(500 * time.Millisecond)
	if used := processorTime(t) - before; used > 250*time.Millisecond {
		t.Errorf("an idle node used %s of processor in 500 ms", used)
	}
	n.stop(t)
	runtime.KeepAlive(w)
}
