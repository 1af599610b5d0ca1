package engine

import (
	"context"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// Reservations that may be accepted after their first end, but not once they have ended.

// version1 is a volume that is signed in version 1: without its dates.
func (f found) version1(lasts time.Duration) *simDoc {
	f.t.Helper()
	doc := f.volume(lasts)
	delete(f.byHash, doc.hash)
	doc.r.Version, doc.r.Nonce = workload.V1, nil
	h, err := doc.r.Hash()
	if err != nil {
		f.t.Fatal(err)
	}
	doc.hash, doc.r.Signature = h, word(doc.user.id, h[:])
	f.byHash[h] = doc
	return doc
}

// lose loses the store, and has the node's owner accept older reservations.
func (f found) lose() {
	f.t.Helper()
	f.node, f.disk, f.before, f.explorer.pending = nil, newSimDisk(), nil, nil
	f.lost = f.clock.now
	for _, doc := range f.explorer.docs {
		doc.promised = false
	}
	f.crash(false)
	f.acceptOlder()
}

// again delivers a document that has ended and whose end has passed, with a renewal
// that was withheld from the node, without its deletion.
func (f found) again(doc *simDoc) {
	f.t.Helper()
	f.end()
	f.want(doc, lifecycle.Ended)
	f.sendAll()
	for range 4 {
		f.pass(2 * time.Hour)
	}
	f.renew(doc, f.clock.now.Add(48*time.Hour))
	doc.r.Deletion = nil
	f.bring(doc)
	f.offered()
	f.end()
}

// Reservations older than the store may come by their renewal: so did one that its
// user had deleted, once its tombstone was buried.
func TestAnOlderReservationDoesNotComeBackByARenewal(t *testing.T) {
	f := newFound(t)
	doc := f.deployed(time.Hour)
	f.lose()
	f.bring(doc)
	f.offered()
	f.end()
	f.want(doc, lifecycle.Deployed)
	f.remove(doc)
	f.bring(doc)
	f.again(doc)
	f.want(doc, lifecycle.Ended)
	f.refuseOlder()
	f.sendAll()
	f.pass(2 * time.Hour)
	f.want(doc, lifecycle.None)
	f.bring(doc)
	f.offered()
	f.want(doc, lifecycle.Refused)
}

// At first the node is shown only its deletion.
func TestAnOlderDeletionHoldsPastTheEnd(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.lose()
	f.remove(doc)
	f.bring(doc)
	f.offered()
	f.again(doc)
	f.want(doc, lifecycle.Ended)
}

// A late dating of the birth made reservations older that the node had accepted,
// ended and forgotten.
func TestALateBirthBringsNothingBack(t *testing.T) {
	f := newFound(t)
	f.clock.level = clock.Stop
	f.lose()
	if birth := f.node.store.Birth().Time; !birth.IsZero() {
		t.Fatalf("the birth is dated: %s", birth)
	}
	doc := f.deployed(time.Hour)
	f.remove(doc)
	f.bring(doc)
	f.end()
	f.sendAll()
	f.pass(2 * time.Hour)
	f.clock.level = clock.Remove
	f.mark()
	f.again(doc)
	f.want(doc, lifecycle.Ended)
}

// The dates of version 1 aren't signed: an ended reservation came again with new ones.
func TestAVersion1ReservationDoesNotComeBackByOtherDates(t *testing.T) {
	f := newFound(t)
	doc := f.version1(time.Hour)
	f.bring(doc)
	f.offered()
	f.end()
	f.want(doc, lifecycle.Deployed)
	f.remove(doc)
	f.bring(doc)
	f.end()
	f.sendAll()
	for range 4 {
		f.pass(2 * time.Hour)
	}
	doc.r.Deletion, doc.r.Created = nil, f.clock.now
	f.bring(doc)
	f.offered()
	f.end()
	f.want(doc, lifecycle.Ended)
}

// A reservation expired before the node had it, was refused and deleted, and could
// come by its renewal.
func TestAnOlderRefusedOneThatIsDeletedStaysRefused(t *testing.T) {
	f := newFound(t)
	doc := f.volume(time.Hour)
	f.lose()
	f.clock.pass(2 * time.Hour)
	f.remove(doc)
	f.bring(doc)
	f.want(doc, lifecycle.Refused)
	f.sendAll()
	f.pass(2 * time.Hour)
	f.renew(doc, f.clock.now.Add(48*time.Hour))
	doc.r.Deletion = nil
	f.bring(doc)
	f.offered()
	f.want(doc, lifecycle.Refused)
	f.refuseOlder()
	f.sendAll()
	f.pass(2 * time.Hour)
	f.want(doc, lifecycle.None)
}

// The memory is full: new reservations are refused, and none is forgotten for them.
func TestTombstonesOutlastNewReservations(t *testing.T) {
	f := newFound(t)
	older := []*simDoc{f.volume(time.Hour), f.volume(time.Hour)}
	f.lose()
	admission, err := admit.New(admit.Config{
		Policy: admit.Policy{AllRecords: 2}, Demand: demandOf, Offer: func(context.Context) (admit.Offer, error) { return admit.Offer{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.node.parts.Admission = admission
	for _, doc := range older {
		f.remove(doc)
		f.bring(doc)
		f.offered()
		f.want(doc, lifecycle.Ended)
	}
	f.sendAll()
	f.pass(2 * time.Hour)
	refused := f.volume(time.Hour)
	f.bring(refused)
	f.offered()
	f.want(refused, lifecycle.Refused)
	for _, doc := range older {
		f.want(doc, lifecycle.Ended)
	}
	f.refuseOlder()
	f.pass(2 * time.Hour)
	taken := f.volume(time.Hour)
	f.bring(taken)
	f.offered()
	f.end()
	f.want(taken, lifecycle.Deployed)
}
