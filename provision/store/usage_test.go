package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/atomicfile/faulty"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// demandOf reads the demand of a test's reservation from its data.
func demandOf(r *workload.Reservation) (provisioner.Demand, error) {
	var data struct{ SSD, CPU uint64 }
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return provisioner.Demand{}, errors.New("cannot read data")
	}
	return provisioner.Demand{SSD: data.SSD, CPU: data.CPU}, nil
}

// sums is a store under random changes.
type sums struct {
	*rapid.T
	root string
	disk *faulty.Disk
	s    *store.FSStore
	now  time.Time
	// buried is the newest buried Created of each name.
	buried map[store.NetworkKey]time.Time
}

func users() []string { return []string{"u", "v", "w"} }

// After any write, burial, acknowledgement or failure, the kept sums equal a recount.
func TestSumsAreARecount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &sums{T: rt, root: fastDir(t), disk: faulty.New(), now: lifeStart(), buried: map[store.NetworkKey]time.Time{}}
		m.open()
		defer func() { m.s.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"write":       func(*rapid.T) { m.write() },
			"bury":        func(*rapid.T) { m.bury() },
			"acknowledge": func(*rapid.T) { m.acknowledge() },
			"reopen":      func(*rapid.T) { m.s.Close(); m.open() },
			"wait":        func(*rapid.T) { m.now = m.now.Add(20 * time.Minute); m.s.Close(); m.open() },
			"":            func(*rapid.T) { m.compare() },
		})
	})
}

func (m *sums) open() {
	s, err := store.Open(store.Config{Root: m.root, Hook: m.disk.Hook, Demand: demandOf, Clock: fixedClock{m.now}})
	if err != nil {
		m.Fatal(err)
	}
	m.s = s
}

// draw makes a record of one of a few IDs, in any phase.
func (m *sums) draw() store.Record {
	n := rapid.IntRange(1, 12).Draw(m.T, "id")
	typ := []workload.Type{workload.TypeNetwork, workload.TypeVolume, workload.TypeContainer, workload.TypeNetwork}[n%4]
	r := &workload.Reservation{
		ID: fmt.Sprintf("%d-1", n), User: users()[n%3], Type: typ,
		Created: lifeStart().Add(time.Duration(n%5) * time.Second), Duration: time.Duration(n) * 15 * time.Minute,
	}
	size := rapid.SampledFrom([]uint64{0, 1, 5, math.MaxUint64 - 1, math.MaxUint64}).Draw(m.T, "size")
	r.Data = json.RawMessage(fmt.Sprintf(`{"SSD":%d,"CPU":2}`, size))
	if n == 11 {
		r.Data = json.RawMessage(`x`)
	}
	rec := store.Record{Reservation: r, Hash: workload.Hash{byte(n)}, Phase: rapid.SampledFrom(lifecycle.Phases()).Draw(m.T, "phase"), Admitted: rapid.Bool().Draw(m.T, "admitted")}
	if old, err := m.s.Record(r.ID); err == nil && old.Reservation.Data != nil {
		rec.Reservation.Data = old.Reservation.Data // a reservation doesn't change
	}
	if typ == workload.TypeNetwork {
		rec.Name = store.NetworkKey{byte(n%2) + 1}
	}
	if rapid.Bool().Draw(m.T, "answer") {
		rec.Result = &workload.Result{State: workload.StateOK}
	}
	return rec
}

func (m *sums) write() {
	var batch []store.Record
	seen := map[string]bool{}
	for range rapid.IntRange(1, 4).Draw(m.T, "records") {
		if r := m.draw(); !seen[r.ID()] {
			seen[r.ID()] = true
			batch = append(batch, r)
		}
	}
	fails := rapid.IntRange(0, 3).Draw(m.T, "fails") == 0
	if fails {
		m.disk.FailAt(2*rapid.IntRange(0, 5).Draw(m.T, "step"), unix.ENOSPC)
	}
	_, err := m.s.Write(batch...)
	if broken := m.disk.Fired().Op != ""; broken != (err != nil) {
		m.Fatalf("broken %v, and the error is %v", broken, err)
	}
	m.disk.FailAt(-1, nil)
	if err != nil { // the disk may hold a part of it: the same write again makes it whole
		m.compare()
		if _, err := m.s.Write(batch...); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *sums) pick() (store.Record, bool) {
	all, err := m.s.List()
	if err != nil {
		m.Fatal(err)
	}
	if len(all) == 0 {
		return store.Record{}, false
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(m.T, "of")], true
}

func (m *sums) bury() {
	r, any := m.pick()
	if !any {
		return
	}
	err := m.s.Bury(r.ID())
	want := node.Kind("")
	switch {
	case !r.Tombstone():
		want = node.Refused
	case r.Result != nil && !r.Delivered:
		want = node.Busy
	}
	if node.KindOf(err) != want {
		m.Fatalf("burying %s in phase %s: %v, want %q", r.ID(), r.Phase, err, want)
	}
	if created := r.Reservation.Created; err == nil && r.HoldsName() && created.After(m.buried[r.Name]) {
		m.buried[r.Name] = created
	}
}

func (m *sums) acknowledge() {
	if r, any := m.pick(); any && r.Result != nil {
		if err := m.s.Acknowledge(store.Receipt{ID: r.ID(), Sequence: r.Result.Sequence}); err != nil {
			m.Fatal(err)
		}
	}
}

// compare recounts all records.
func (m *sums) compare() {
	all, err := m.s.List()
	if err != nil {
		m.Fatal(err)
	}
	var total store.Usage
	of := map[string]*store.Usage{"u": {}, "v": {}, "w": {}, "nobody": {}}
	inPhase, named := map[store.Phase][]store.Record{}, map[store.NetworkKey][]store.Record{}
	for _, r := range all {
		inPhase[r.Phase] = append(inPhase[r.Phase], r)
		if r.HoldsName() {
			named[r.Name] = append(named[r.Name], r)
		}
		recount(&total, r)
		recount(of[r.Reservation.User], r)
	}
	for user, want := range of {
		if got, sum := m.s.Usage(user); got != *want || sum != total {
			m.Fatalf("user %s: %+v, want %+v; all: %+v, want %+v", user, got, *want, sum, total)
		}
	}
	for _, p := range lifecycle.Phases() {
		if got := m.s.Count(p); got != len(inPhase[p]) {
			m.Fatalf("%s: %d, want %s", p, got, ids(inPhase[p]))
		}
	}
	for _, key := range []store.NetworkKey{{1}, {2}, {3}} {
		m.compareName(key, named[key])
	}
	for _, t := range workload.Types() {
		want := slices.DeleteFunc(slices.Clone(all), func(r store.Record) bool { return r.Reservation.Type != t || r.Tombstone() })
		if got, err := m.s.OfType(t); err != nil || ids(got) != ids(want) {
			m.Fatalf("of type %s: %s, want %s: %v", t, ids(got), ids(want), err)
		}
	}
	if got, want := m.s.Counters(), m.counted(all); got != want {
		m.Fatalf("counters %+v, want %+v", got, want)
	}
}

func recount(u *store.Usage, r store.Record) {
	if r.Phase == store.Dismissed {
		return
	}
	u.Records++
	if r.Phase == store.Waiting {
		u.Waiting++
	}
	if r.Present() {
		u.Workloads++
	}
	if r.Present() && r.Phase != store.Replaced {
		d, _ := demandOf(r.Reservation)
		u.Demand = u.Demand.Add(d)
	}
}

func (m *sums) compareName(key store.NetworkKey, want []store.Record) {
	slices.SortStableFunc(want, func(a, b store.Record) int { return a.Reservation.Created.Compare(b.Reservation.Created) })
	got, err := m.s.Named(key)
	if err != nil || ids(got) != ids(want) {
		m.Fatalf("named: %s, %v, want %s", ids(got), err, ids(want))
	}
	newest := m.buried[key]
	if len(want) > 0 && want[len(want)-1].Reservation.Created.After(newest) {
		newest = want[len(want)-1].Reservation.Created
	}
	if at, known := m.s.Newest(key); known == newest.IsZero() || !at.Equal(newest) {
		m.Fatalf("newest: %s, %v, want %s", at, known, newest)
	}
}

// counted is the expected Counters: unexpired, deployed, each name once.
func (m *sums) counted(all []store.Record) workload.ProvisionCounters {
	var c workload.ProvisionCounters
	names := map[store.NetworkKey]bool{}
	for _, r := range all {
		if r.Phase != store.Deployed || r.Reservation.ExpiredAt(m.now) || names[r.Name] {
			continue
		}
		names[r.Name] = r.Name != store.NetworkKey{}
		switch r.Reservation.Type {
		case workload.TypeNetwork:
			c.Network++
		case workload.TypeVolume:
			c.Volume++
		case workload.TypeContainer:
			c.Container++
		}
	}
	return c
}

// Demand is computed once per record, however often it is written, and never for one
// without promised room.
func TestDemandIsWorkedOutOnce(t *testing.T) {
	asked := 0
	s := open(t, store.Config{Root: t.TempDir(), Demand: func(r *workload.Reservation) (provisioner.Demand, error) {
		asked++
		return provisioner.Demand{SSD: 7}, nil
	}})
	r := record(volume("1-1", time.Now(), time.Hour), store.Waiting)
	finish(t, s, r)
	if of, _ := s.Usage(r.Reservation.User); asked != 0 || of != (store.Usage{Records: 1, Waiting: 1}) {
		t.Errorf("waiting: %+v, asked %d times", of, asked)
	}
	for _, p := range []store.Phase{store.Intent, store.Retry, store.Intent, store.Deployed, store.Held, store.Leaving} {
		finish(t, s, record(r.Reservation, p))
		if of, all := s.Usage(r.Reservation.User); asked != 1 || of != all || of != (store.Usage{Records: 1, Workloads: 1, Demand: provisioner.Demand{SSD: 7}}) {
			t.Errorf("%s: %+v, all %+v, asked %d times", p, of, all, asked)
		}
	}
	finish(t, s, record(r.Reservation, store.Ended))
	if of, _ := s.Usage(r.Reservation.User); of != (store.Usage{Records: 1}) {
		t.Errorf("ended: %+v", of)
	}
}
