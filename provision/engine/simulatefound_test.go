package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Bugs that the simulation has found, each as the shortest history that shows it.

// found is a node whose history a test writes. Its time is of level Remove, and
// its store accepts older reservations.
type found struct {
	*simulation
	t *testing.T
}

func newFound(t *testing.T) found {
	s := &simulation{}
	for seed := uint64(1); !s.toy || !s.newNode; seed++ {
		s = newSimulation(seed, true)
	}
	s.clock.level, s.clock.lie = clock.Remove, 0
	s.mark()
	s.clock.pass(time.Second)
	t.Cleanup(func() {
		if s.failed != "" {
			t.Error(s.failed)
		}
		if t.Failed() {
			t.Log(s.lines)
		}
	})
	return found{s, t}
}

func (f found) reserve(kind workload.Type, data string, lasts time.Duration) *simDoc {
	f.t.Helper()
	f.explorer.ids++
	doc, err := f.users[0].reserve(workload.Reservation{
		ID: workload.ID{N: uint64(f.explorer.ids), M: 1}.String(), NodeID: f.nodeID, Type: kind, Data: []byte(data),
		Created: f.clock.now, Duration: lasts,
	}, f.rnd)
	if err != nil {
		f.t.Fatal(err)
	}
	f.explorer.docs = append(f.explorer.docs, doc)
	f.byHash[doc.hash] = doc
	f.clock.pass(time.Second)
	return doc
}

func (f found) volume(lasts time.Duration) *simDoc {
	f.t.Helper()
	return f.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, lasts)
}

func (f found) renew(doc *simDoc, until time.Time) {
	f.t.Helper()
	if err := doc.user.renew(doc, until); err != nil {
		f.t.Fatal(err)
	}
}

func (f found) remove(doc *simDoc) {
	f.t.Helper()
	if err := doc.user.remove(doc, f.clock.now); err != nil {
		f.t.Fatal(err)
	}
}

// bring delivers documents as they are, in one round.
func (f found) bring(docs ...*simDoc) {
	var inputs []input
	for _, doc := range docs {
		f.explorer.push(doc)
		inputs = append(inputs, f.simulation.bring(f.explorer.pending[len(f.explorer.pending)-1])...)
	}
	f.round(inputs)
}

func (f found) offered() {
	for range 2 {
		if f.node.asked {
			f.round(f.offer(nil))
		}
	}
}

// end has all effects in flight succeed, and those that follow them.
func (f found) end() {
	for range 12 {
		for _, one := range slices.Clone(f.node.flying) {
			f.act(one, faultNone)
			f.round(f.land(one))
		}
	}
}

func (f found) deployed(lasts time.Duration) *simDoc {
	f.t.Helper()
	doc := f.volume(lasts)
	f.bring(doc)
	f.offered()
	f.end()
	f.want(doc, lifecycle.Deployed)
	return doc
}

func (f found) phase(doc *simDoc) lifecycle.Phase {
	rec, err := f.node.store.ByHash(doc.hash)
	if err != nil {
		return lifecycle.None
	}
	return rec.Phase
}

func (f found) want(doc *simDoc, p lifecycle.Phase) {
	f.t.Helper()
	if got := f.phase(doc); got != p {
		f.t.Fatalf("%s is %q, want %q", doc.r.ID, got, p)
	}
}

// Noting a renewal on a record that waited for its next attempt dropped that attempt.
func TestARetryThatIsRenewedIsTriedAgain(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.bring(doc)
	f.offered()
	f.act(f.node.flying[0], faultTransient)
	f.round(f.land(f.node.flying[0]))
	f.want(doc, lifecycle.Retry)
	f.renew(doc, f.clock.now.Add(48*time.Hour))
	f.bring(doc)
	f.pass(time.Minute)
	f.end()
	f.want(doc, lifecycle.Deployed)
}

// After a round that couldn't be written, only the records that it had changed were looked at again.
func TestFullDiskKeepsTurns(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.clock.level = clock.Stop
	f.clock.lie = -48 * time.Hour // the clock is behind: it comes from the future
	f.node.desk.now = f.clock.Read()
	f.clock.level = clock.None
	f.bring(doc)
	f.want(doc, lifecycle.Waiting)
	other := f.volume(time.Hour)
	f.clock.pass(5 * time.Second)
	f.disk.full = true
	f.bring(other)
	f.disk.full = false
	f.clock.level = clock.Remove
	for range 3 {
		f.pass(10 * time.Second)
		f.offered()
	}
	f.end()
	f.want(doc, lifecycle.Deployed)
}

// A reservation whose write failed was taken for known when it came again.
func TestARenewalThatCouldNotBeWrittenIsNotKnown(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.bring(doc)
	f.renew(doc, f.clock.now.Add(48*time.Hour))
	f.disk.full = true
	f.bring(doc)
	f.disk.full = false
	f.bring(doc)
	rec, err := f.node.store.ByHash(doc.hash)
	if pending := len(f.explorer.pending); err != nil || rec.Reservation.Renewal == nil {
		t.Fatalf("%d documents wait, the renewal isn't durable: %v", pending, err)
	}
}

// The explorer withholds a renewal, and delivers the deleted reservation with it
// when its tombstone is buried.
func TestADeletedReservationDoesNotComeBackByARenewal(t *testing.T) {
	f := newFound(t)
	doc := f.deployed(time.Hour)
	f.remove(doc)
	f.bring(doc)
	f.end()
	f.want(doc, lifecycle.Ended)
	f.send(0, true)
	for range 4 {
		f.pass(2 * time.Hour)
	}
	f.want(doc, lifecycle.None)
	f.renew(doc, f.clock.now.Add(48*time.Hour))
	doc.r.Deletion = nil
	f.bring(doc)
	f.offered()
	f.want(doc, lifecycle.Refused)
}

// A deletion is over the hash, also when it comes with another reservation's ID.
func TestADeletionUnderATakenID(t *testing.T) {
	f := newFound(t)
	doc, other := f.deployed(time.Hour), f.deployed(time.Hour)
	f.remove(doc)
	doc.r.ID = other.r.ID
	f.bring(doc)
	f.end()
	f.want(doc, lifecycle.Ended)
	f.want(other, lifecycle.Deployed)
}

// When an orphan was removed under an ID that by then had another record, the
// outcome of that record's own effect was lost.
func TestARemovalOfAnOrphanIsNotItsIDsRecords(t *testing.T) {
	f := newFound(t)
	doc := f.reserve(workload.TypeZDB, `{"size":1,"mode":"user","disk_type":"SSD"}`, 720*time.Hour)
	f.modules.things["volume "+doc.r.ID] = &simThing{
		kind: workload.TypeVolume, Label: provisioner.Label{ID: doc.r.ID, Hash: f.volume(time.Hour).hash},
	}
	f.modules.fetched[doc.hash] = true
	f.seen(f.look(workload.TypeVolume))
	f.pass(8 * 24 * time.Hour)
	f.bring(doc)
	f.offered()
	f.want(doc, lifecycle.Intent)
	f.seen(f.look(workload.TypeVolume))
	if n := f.node.desk.flights.queue.Len(); n != 2 {
		t.Fatalf("%d effects wait or are in flight, want the fetch and the removal", n)
	}
	f.end()
	f.want(doc, lifecycle.Deployed)
}

// A module may make a workload after the same was decommissioned. It is nobody's,
// and gets no grace.
func TestWorkloadMadeAfterItsEndIsRemoved(t *testing.T) {
	f := newFound(t)
	doc := f.deployed(time.Hour)
	late := *f.modules.things["volume "+doc.r.ID]
	f.remove(doc)
	f.bring(doc)
	f.end()
	f.want(doc, lifecycle.Ended)
	f.modules.things["volume "+doc.r.ID] = &late
	for range 2 { // the first look notes it, the second finds it due
		f.seen(f.look(workload.TypeVolume))
		f.end()
	}
	if len(f.modules.things) > 0 {
		t.Errorf("on the node is %v", f.modules.things)
	}
}

// Eviction of a waiting reservation whose user was told that it is deleted.
func TestAnEvictionAfterADeletionSaysDeleted(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.bring(doc)
	f.remove(doc)
	f.bring(doc)
	f.want(doc, lifecycle.Waiting)
	answer := make(chan error, 1)
	f.round([]input{f.node.desk.evicted(order{id: doc.r.ID, answer: answer})})
	rec, err := f.node.store.ByHash(doc.hash)
	if err != nil || rec.End != workload.StateDeleted || rec.Result.State != workload.StateDeleted {
		t.Fatalf("%+v, %v", rec, err)
	}
}

// An end freed blocked records before it was durable: with a full disk, a network
// that waited for its own name was freed for ever, in one round.
func TestAFullDiskDoesNotKeepTheEngineBusy(t *testing.T) {
	f := newFound(t)
	network := func() *simDoc {
		doc := f.reserve(workload.TypeNetwork, `{"name":"n1"}`, 720*time.Hour)
		f.bring(doc)
		f.offered()
		return doc
	}
	older := network()
	f.end()
	user := f.reserve(workload.TypeContainer, `{"flist":"http://x/y","network":{"network_id":"n1","ips":["10.0.0.2"]},"capacity":{"cpu":1,"memory":1}}`, 720*time.Hour)
	f.modules.fetched[user.hash] = true
	f.bring(user)
	f.offered()
	f.end()
	f.want(user, lifecycle.Deployed)
	f.remove(older)
	f.bring(older)
	f.end()
	f.want(older, lifecycle.Blocked)
	newer := network()
	f.disk.full = true
	f.pass(time.Minute)
	f.disk.full = false
	f.end()
	f.want(older, lifecycle.Ended)
	f.want(newer, lifecycle.Deployed)
}

// A dismissed record has no claim to its ID: a record parked under the same ID in
// that round was forgotten with it, and acknowledged.
func TestAnswerKeepsIDs(t *testing.T) {
	f := newFound(t)
	wrong := f.reserve(workload.TypeVolume, `{"size":99,"type":"SSD"}`, time.Hour)
	doc := f.volume(time.Hour)
	f.node.parts.Limits.Refused = 0
	doc.r.ID = wrong.r.ID
	f.bring(wrong, doc, doc)
	f.offered()
	f.end()
	f.want(doc, lifecycle.Deployed)
}

// Too many are refused, so that a deleted one among them is kept only for its
// answer: until its user has that, it doesn't come back.
func TestDeletedReservationIsNotTakenInAgain(t *testing.T) {
	f := newFound(t)
	f.node.parts.Limits.Refused = 0
	doc := f.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, time.Hour)
	f.clock.pass(2 * time.Hour)
	f.remove(doc)
	f.bring(doc)
	f.want(doc, lifecycle.None)
	f.clock.now = f.clock.now.Add(-2 * time.Hour) // the clock by which it was refused was wrong
	doc.r.Deletion = nil
	f.bring(doc)
	f.offered()
	f.want(doc, lifecycle.None)
}

// Data from an earlier life of the store: a final error of the first attempt in
// the next life removed it.
func TestAFailureAfterALostStoreRemovesNoData(t *testing.T) {
	f := newFound(t)
	zdb := f.reserve(workload.TypeZDB, `{"size":1,"mode":"user","disk_type":"SSD"}`, 720*time.Hour)
	f.modules.fetched[zdb.hash] = true
	f.bring(zdb)
	f.offered()
	f.end()
	f.want(zdb, lifecycle.Deployed)
	f.lose()
	f.bring(zdb)
	f.offered()
	f.act(f.node.flying[0], faultFinal)
	f.round(f.land(f.node.flying[0]))
	f.end()
	f.want(zdb, lifecycle.Failed)
	if f.modules.things[simKey(&zdb.r)] == nil {
		t.Fatal("its data is gone")
	}
}

// After a lost store an explorer delivers another network under the ID of one that is
// on the node: a look listed one of the two, and the other's removal took the first.
func TestTwoNetworksOfOneID(t *testing.T) {
	for _, names := range [][2]string{{"n1", "n2"}, {"n2", "n1"}} {
		f := newFound(t)
		network := func(name string) *simDoc {
			return f.reserve(workload.TypeNetwork, `{"name":"`+name+`"}`, 720*time.Hour)
		}
		older := network(names[0])
		f.bring(older)
		f.offered()
		f.end()
		f.want(older, lifecycle.Deployed)
		f.node, f.disk, f.before, f.explorer.pending = nil, newSimDisk(), nil, nil
		f.lost, older.promised = f.clock.now, false
		f.crash(false)
		f.acceptOlder()
		newer := network(names[1])
		newer.r.ID = older.r.ID
		f.bring(newer)
		f.offered()
		f.end()
		f.want(newer, lifecycle.Deployed)
		for range 2 {
			f.seen(f.look(workload.TypeNetwork))
			f.end()
			f.pass(8 * 24 * time.Hour)
		}
		f.want(newer, lifecycle.Deployed)
		if own := f.modules.things[simKey(&newer.r)]; len(f.modules.things) != 1 || own == nil || own.made != 2 {
			t.Errorf("on the node is %v", f.modules.things)
		}
	}
}

// Two orphans of one ID are due in one round: the outcome of each removal is handled.
func TestTwoOrphansOfOneID(t *testing.T) {
	f := newFound(t)
	for i, name := range []string{"n1", "n2"} {
		doc := f.reserve(workload.TypeNetwork, `{"name":"`+name+`"}`, 720*time.Hour)
		f.modules.things[simKey(&doc.r)] = &simThing{kind: workload.TypeNetwork, Label: provisioner.Label{ID: "1-1", Hash: doc.hash}, made: i + 1}
	}
	f.seen(f.look(workload.TypeNetwork))
	f.pass(8 * 24 * time.Hour)
	f.seen(f.look(workload.TypeNetwork))
	if n := f.node.desk.flights.queue.Len(); n != 2 {
		t.Fatalf("%d effects wait or are in flight, want both removals", n)
	}
	f.end()
	if o := f.node.desk.notes.orphans; len(f.modules.things)+len(o.All())+o.InFlight() != 0 {
		t.Errorf("on the node is %v, orphans are %v, %d are being removed", f.modules.things, o.All(), o.InFlight())
	}
}

// A refused container that had the ID of a volume which it asked for was in use by itself, and never left.
func TestAContainerWithTheIDOfItsVolume(t *testing.T) {
	f := newFound(t)
	doc := f.reserve(workload.TypeContainer, `{"flist":"http://x/y","mounts":[{"volume_id":"1-1","mountpoint":"/data"}],`+
		`"network":{"network_id":"n1","ips":["10.1.1.2"]},"capacity":{"cpu":1,"memory":64}}`, 720*time.Hour)
	f.bring(doc)
	f.offered()
	f.end()
	for range 3 {
		f.pass(time.Minute)
		f.end()
	}
	f.want(doc, lifecycle.Failed)
}

// A network whose removal had begun was tried again only on its own time: a container that was attempted at the same moments used it each time.
func TestALeavingNetworkGoesOnceNothingUsesIt(t *testing.T) {
	f := newFound(t)
	network := f.reserve(workload.TypeNetwork, `{"name":"n2"}`, 720*time.Hour)
	user := f.reserve(workload.TypeContainer, `{"flist":"http://x/y","mounts":[],"network":{"network_id":"n2","ips":["10.0.0.2"]},"capacity":{"cpu":1,"memory":1}}`, 720*time.Hour)
	fails := func() {
		t.Helper()
		if len(f.node.flying) != 1 {
			t.Fatalf("%d effects are in flight, want one", len(f.node.flying))
		}
		one := f.node.flying[0]
		f.act(one, faultTransient)
		f.round(f.land(one))
	}
	f.bring(network)
	f.offered()
	f.end()
	f.bring(user)
	f.offered()
	for range 3 {
		f.end()
		f.pass(time.Minute)
	}
	f.want(user, lifecycle.Deployed)
	f.remove(network)
	f.bring(network)
	f.want(network, lifecycle.Blocked)
	delete(f.modules.things, simKey(&user.r))
	f.seen(f.look(workload.TypeContainer))
	f.want(user, lifecycle.Intent)
	fails()
	f.want(network, lifecycle.Leaving)
	fails() // its removal: something of it may be gone
	f.pass(time.Hour)
	f.want(user, lifecycle.Intent)
	f.want(network, lifecycle.Leaving)
	fails()
	f.end()
	f.want(network, lifecycle.Ended)
}
