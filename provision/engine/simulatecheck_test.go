package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// remember keeps the present records for comparison after the next step.
func (s *simulation) remember() {
	recs, err := s.node.store.List()
	if err != nil {
		s.fail("cannot list: %v", err)
	}
	s.before = map[string]store.Record{}
	for _, rec := range recs {
		s.before[rec.ID()] = rec
	}
	s.steps = s.disk.steps
}

// check asserts the invariants that hold after every step.
func (s *simulation) check() {
	if s.node == nil || s.disk.dead || s.failed != "" || s.disk.steps == s.steps {
		return
	}
	before := s.before
	s.remember()
	var promised provisioner.Demand
	users := map[string]int{}
	for _, rec := range s.before {
		if doc := s.doc(rec.Hash); doc != nil && rec.Admitted {
			doc.admitted = true
		}
	}
	for _, id := range sortedKeys(s.before) {
		rec := s.before[id]
		s.checkRecord(before[id], rec)
		if rec.Present() {
			d, _ := demandOf(rec.Reservation)
			if rec.Name != (lifecycle.NameKey{}) && s.supplants(rec) {
				d = d.Sub(d.Momentary()) // it takes that over from the one that it replaces
			}
			promised = promised.Add(d)
			users[rec.Reservation.User]++
		}
	}
	if promised.SSD > simSSD || promised.CPU > simCPU {
		s.fail("more is promised than there is: %+v", promised)
	}
	if both := s.modules.twice(s.before); both != "" {
		s.fail("%s have one name, and both run", both)
	}
	for user, n := range users {
		if n > simWorkloads {
			s.fail("user %s has %d workloads", user, n)
		}
	}
	for _, id := range sortedKeys(before) {
		if _, still := s.before[id]; !still {
			s.checkForgotten(before[id])
		}
	}
}

// supplants reports whether a container is on the node beside an older one of its name.
func (s *simulation) supplants(rec store.Record) bool {
	for _, other := range s.before {
		if other.Name == rec.Name && other.Present() && other.Reservation.Created.Before(rec.Reservation.Created) {
			return true
		}
	}
	return false
}

// checkRecord compares one record with the truth about its reservation.
func (s *simulation) checkRecord(was, rec store.Record) {
	doc := s.doc(rec.Hash)
	if doc == nil {
		s.fail("there is a record of what nobody has signed: %s", describe(rec))
		return
	}
	if s.told {
		s.changed(was, rec)
	}
	if was.Phase == lifecycle.Dismissed && rec.Phase != lifecycle.Dismissed {
		doc.told = "" // it was forgotten, and came again
	}
	if rec.Phase == lifecycle.Deployed {
		doc.promised, doc.taken = true, true
	}
	if renewal := rec.Reservation.Renewal; renewal != nil && !rec.Tombstone() {
		if !doc.renewals[string(renewal.Signature)] {
			s.fail("nobody has signed its renewal: %s", describe(rec))
		}
		doc.end = later(doc.end, renewal.Expires)
	}
	if was.Reservation != nil && was.Hash == rec.Hash && was.Tombstone() && !rec.Tombstone() && was.Phase != lifecycle.Dismissed && !was.Older {
		s.fail("%s was %s and lives again: %s", rec.ID(), was.Phase, describe(rec))
	}
	if doc.ended && rec.Admitted && !rec.Tombstone() {
		s.fail("it had ended, and lives again: %s", describe(rec))
	}
	switch rec.Phase {
	case lifecycle.Refused, lifecycle.Dismissed:
		// A renewal of a reservation that never was is forgotten, unless it is here under another ID.
		if _, err := s.node.store.ByHash(rec.Hash); rec.Phase == lifecycle.Refused || err != nil {
			doc.end = doc.r.Created.Add(doc.r.Duration)
		}
	case lifecycle.Ended:
		doc.ended = true
		s.checkEnd(doc, rec)
	case lifecycle.Failed:
		if doc.promised {
			s.fail("it was on the node, and is given up: %s", describe(rec))
		}
	case lifecycle.Leaving:
		if doc.promised || rec.End != workload.StateError {
			s.checkEnd(doc, rec)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// changed logs how a record has changed.
func (s *simulation) changed(was, rec store.Record) {
	if was.Reservation == nil || was.Hash != rec.Hash {
		s.say("    %s: new: %s", rec.ID(), describe(rec))
	} else if describe(was) != describe(rec) {
		s.say("    %s: %s → %s", rec.ID(), was.Phase, describe(rec))
	}
}

// checkEnd compares the end of a record with the truth.
func (s *simulation) checkEnd(doc *simDoc, rec store.Record) {
	named := s.outdone(rec)
	switch {
	case rec.End == workload.StateDeleted && !doc.deleted && !named:
		s.fail("nobody deleted it: %s", describe(rec))
	case rec.End == workload.StateExpired && !doc.over(s.clock.now) && !named:
		s.fail("it lasts until %s, now is %s: %s", s.at(doc.end), s.at(s.clock.now), describe(rec))
	case rec.End == workload.StateEvicted && doc.evicted.IsZero() && !named:
		s.fail("nobody evicted it: %s", describe(rec))
	case rec.End == workload.StateError:
		s.fail("it was on the node, and is taken down for an error: %s", describe(rec))
	}
}

// outdone reports whether there was a newer reservation of a record's name.
func (s *simulation) outdone(rec store.Record) bool {
	if rec.Name == (lifecycle.NameKey{}) {
		return false
	}
	for _, doc := range s.explorer.docs {
		if name, _ := lifecycle.NameOf(&doc.r); name == rec.Name && doc.r.Created.After(rec.Reservation.Created) && doc.admitted {
			return true
		}
	}
	return false
}

// checkForgotten asserts that a record was rightly forgotten.
func (s *simulation) checkForgotten(rec store.Record) {
	doc := s.doc(rec.Hash)
	s.say("    %s: forgotten", rec.ID())
	if _, err := s.node.store.ByHash(rec.Hash); doc != nil && err != nil {
		doc.told, doc.promised = "", false
	}
	if rec.Phase == lifecycle.Dismissed || rec.Phase == lifecycle.Waiting || doc == nil {
		return // refused ones beyond the limit are forgotten
	}
	if thing := s.modules.things[simKey(rec.Reservation)]; !rec.Tombstone() && thing != nil && thing.Hash == rec.Hash {
		s.fail("it is forgotten and hasn't ended: %s", describe(rec))
	}
	if now := s.clock.now; now.Before(rec.Reservation.Expires()) || now.Before(doc.r.Created.Add(doc.r.Duration)) {
		s.fail("it is forgotten at %s, and lasts until %s: %s", s.at(now), s.at(doc.end), describe(rec))
	}
	if rec.Result != nil && !rec.Delivered {
		s.fail("it is forgotten before its user had the answer: %s", describe(rec))
	}
}

// witnessed is called with each action of the modules.
func (s *simulation) witnessed(t *simThing, what string) {
	doc := s.doc(t.Hash)
	s.say("    %s %s %x is %s", t.kind, t.ID, t.Hash[:3], what)
	switch {
	case doc == nil:
		s.fail("%s %s of what nobody has signed is %s", t.kind, t.ID, what)
	case what == "made":
		s.checkMade(doc, t)
	case what == "removed" && t.holdsData():
		s.checkRemoved(doc, t)
	}
	if f := s.acting; what == "removed" && f != nil && f.kind == removeOrphan {
		s.checkOrphan(f.orphan, t)
	}
}

// checkOrphan asserts that the removal of an orphan removes that one, and nothing
// that a record wants.
func (s *simulation) checkOrphan(o drift.Orphan, t *simThing) {
	if t.kind != o.Type || t.Label != o.Label() {
		s.fail("the removal of orphan %s %s %x takes down %s %s %x", o.Type, o.ID, o.Hash[:3], t.kind, t.ID, t.Hash[:3])
	}
	if rec, err := s.node.store.Record(t.ID); err == nil && rec.Phase == lifecycle.Deployed && rec.Hash == t.Hash {
		s.fail("it is taken down as an orphan: %s", describe(rec))
	}
}

func (s *simulation) checkMade(doc *simDoc, t *simThing) {
	for id, h := range t.volumes {
		volume := s.doc(h)
		if volume == nil || volume.user != doc.user {
			s.fail("container %s mounts another user's volume %s", t.ID, id)
		}
		if before, known := doc.bound[id]; known && before != h && s.lost.IsZero() {
			s.fail("container %s mounted %x as %s and mounts %x now", t.ID, before[:3], id, h[:3])
		}
	}
	if doc.bound == nil && len(t.volumes) > 0 {
		doc.bound = t.volumes
	}
}

// checkRemoved asserts that data may be removed, by the truth.
func (s *simulation) checkRemoved(doc *simDoc, t *simThing) {
	now, grace := s.clock.now, s.node.parts.Limits.Grace
	switch {
	case doc.deleted, doc.over(now), !doc.taken:
	case !doc.evicted.IsZero() && now.Sub(doc.evicted) >= grace:
	case !s.lost.IsZero() && now.Sub(s.lost) >= grace:
	default:
		s.fail("data of %s %s %x is removed without a proof: now %s, its end %s", t.kind, t.ID, t.Hash[:3], s.at(now), s.at(doc.end))
	}
}

// answered compares a result that reached the explorer with those before.
func (s *simulation) answered(rec store.Record) {
	r := rec.Result
	key := fmt.Sprintf("%s %d", r.Birth, r.Sequence)
	says := fmt.Sprintf("%s %s %s %s %s", r.ID, r.State, r.Error, r.Data, r.Created)
	if old, known := s.explorer.results[key]; known && old != says {
		s.fail("two results have the sequence %s: %s and %s", key, old, says)
	}
	s.explorer.results[key] = says
	doc := s.doc(rec.Hash)
	if doc == nil || rec.Phase == lifecycle.Dismissed {
		return
	}
	if final := doc.told; workload.Ended(final) && r.State != final && !(final == workload.StateEvicted && workload.Ended(r.State)) {
		s.fail("%s is told to be %s after %s", r.ID, r.State, final)
	}
	doc.told = r.State
}

// quiet asserts the invariants that hold when everything works and has had its time.
func (s *simulation) quiet() {
	n := s.node
	if got := n.desk.flights.queue.Len(); got > 0 || len(n.flying) > 0 {
		s.fail("%d effects wait or are in flight, %d are known", got, len(n.flying))
	}
	if n.asked || len(n.desk.judging.next)+len(n.desk.judging.waiting)+len(n.desk.ledger.parked) > 0 {
		s.fail("something still waits to be judged: %v", sortedKeys(n.desk.ledger.parked))
	}
	if owed, _ := n.store.Undelivered(); len(owed) > 0 {
		s.fail("%d answers aren't delivered", len(owed))
	}
	for _, d := range s.explorer.pending {
		s.fail("%s isn't taken in", d.r.ID)
	}
	recs, _ := n.store.List()
	wanted := map[string]workload.Hash{}
	for _, rec := range recs {
		s.quietRecord(rec, wanted)
	}
	for _, t := range s.modules.sorted() {
		if h, ok := wanted[string(t.kind)+" "+t.ID]; ok && h == t.Hash {
			continue
		}
		rec, err := n.store.Record(t.ID)
		known := slices.ContainsFunc(s.book.orphans, func(o drift.Orphan) bool { return o.Label() == t.Label && o.Type == t.kind })
		if !known && (err != nil || rec.Hash != t.Hash || rec.Tombstone()) {
			s.fail("%s %s %x is on the node, and nothing wants it", t.kind, t.ID, t.Hash[:3])
		}
	}
	for _, doc := range s.explorer.docs {
		s.quietDoc(doc)
	}
}

// quietRecord asserts that a record's workload is as its phase says.
func (s *simulation) quietRecord(rec store.Record, wanted map[string]workload.Hash) {
	doc := s.doc(rec.Hash)
	key := simKey(rec.Reservation)
	thing := s.modules.things[key]
	switch rec.Phase {
	case lifecycle.Deployed:
		wanted[string(rec.Reservation.Type)+" "+rec.ID()] = rec.Hash
		if s.outdone(rec) && thing != nil && thing.Hash != rec.Hash {
			break // a newer one of its name is on the node until it may leave, and this one ends with it
		}
		if thing == nil || thing.Hash != rec.Hash || thing.ID != rec.ID() || thing.stopped || thing.drift != "" {
			s.fail("it isn't on the node as it was made: %s, there is %+v", describe(rec), thing)
		}
		if doc.over(s.clock.now) {
			s.fail("it is over since %s: %s", s.at(doc.end), describe(rec))
		}
		if rec.Result == nil || rec.Result.State != workload.StateOK {
			s.fail("its user wasn't told that it is there: %s %+v", describe(rec), rec.Result)
		}
	case lifecycle.Waiting, lifecycle.Fetching, lifecycle.Intent:
		s.fail("it goes neither on nor back: %s", describe(rec))
	case lifecycle.Retry:
		if !strings.Contains(rec.Cause, "isn't there yet") && !strings.Contains(rec.Cause, "isn't yours") &&
			!strings.Contains(rec.Cause, "no such network") && !strings.Contains(rec.Cause, "is another reservation") {
			s.fail("it should be on the node: %s", describe(rec))
		}
	case lifecycle.Leaving, lifecycle.Stopping, lifecycle.Blocked:
		if !s.modules.users(key) || thing == nil && !s.node.desk.uses.InUse(rec) {
			s.fail("it should have gone: %s", describe(rec))
		}
	}
}

// quietDoc asserts that a user's promised workload is on the node.
func (s *simulation) quietDoc(doc *simDoc) {
	rec, err := s.node.store.ByHash(doc.hash)
	if err != nil {
		if doc.promised && !doc.over(s.clock.now) && !doc.deleted && doc.evicted.IsZero() {
			s.fail("%s %s %x was promised and nothing is known of it: %v", doc.r.Type, doc.r.ID, doc.hash[:3], err)
		}
		return
	}
	if doc.deleted && rec.Phase.Wanted() {
		s.fail("it was deleted: %s", describe(rec))
	}
	if !doc.evicted.IsZero() && rec.Phase.Wanted() && doc.evictedIn == s.births {
		s.fail("it was evicted: %s", describe(rec))
	}
	live := rec.Phase.Wanted() || rec.Phase == lifecycle.Replaced
	if doc.promised && !live && !doc.deleted && doc.evicted.IsZero() && !doc.over(s.clock.now) && !s.outdone(rec) {
		s.fail("it was promised: %s", describe(rec))
	}
}

// empty asserts that nothing is left when all is over.
func (s *simulation) empty() {
	n := s.node
	if recs, _ := n.store.List(); len(recs) > 0 {
		s.fail("%d records are left, such as %s", len(recs), describe(recs[0]))
	}
	if len(s.modules.things) > 0 {
		s.fail("left on the node: %s %s", s.modules.sorted()[0].kind, s.modules.sorted()[0].ID)
	}
	d := n.desk
	left := map[string]int{
		"flights": d.flights.queue.Len(), "parked": len(d.ledger.parked), "staged": len(d.ledger.staged),
		"waiting": len(d.judging.waiting) + len(d.judging.next), "uses": d.uses.Size(),
		"shown": len(n.board.shown) + len(n.board.orphans), "conditions": len(d.panel.conditions), "changed": len(d.panel.changed),
		"drifts": d.notes.drifts.Size(), "progress": len(d.notes.progress.of),
		"orphans": d.notes.orphans.Size(),
		"soon":    len(d.soon), "after": len(d.after),
	}
	for what, n := range d.timers.Len() {
		left["timers: "+what] = n
	}
	for _, what := range sortedKeys(left) {
		if left[what] > 0 {
			s.fail("%d %s are left when all is over", left[what], what)
		}
	}
}

// at formats a time for a history: since the beginning.
func (s *simulation) at(t time.Time) string { return t.Sub(s.begin).Round(time.Second).String() }
