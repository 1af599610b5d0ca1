// Package recordstest checks implementations of store.Records against small models.
package recordstest

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// sending is a result on its way to the explorer and its receipt on the way back.
type sending struct {
	receipt store.Receipt
	arrived bool
}

// exchange is a node's results, the explorer that they are sent to, and what is between them.
type exchange struct {
	*rapid.T
	records store.Records
	ids     []string
	// has is the sequence of the result that the explorer has of each reservation, zero for none.
	has map[string]int64
	// lost says of which results a restored explorer hasn't asked for again yet.
	lost map[string]bool
	// copies are records as they were read at some time.
	copies []store.Record
	// sendings are in no order: several senders may be at work, and any of them may be slow.
	sendings []sending
}

// Receipts generates orders of results, deliveries, late receipts, and an explorer that is restored
// from a backup and asks again. Each result is at the explorer, undelivered in records, or lost by an
// explorer that hasn't asked for it again. Open returns records that hold nothing.
func Receipts(t *testing.T, open func(t *rapid.T) store.Records) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		x := &exchange{T: rt, records: open(rt), has: map[string]int64{}, lost: map[string]bool{}}
		for i := range 3 {
			rec := deployed(rt, fmt.Sprintf("%d-1", i+1))
			x.ids = append(x.ids, rec.ID())
			x.write(rec)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"answer": x.answer, "copy": x.copy, "rewrite": x.rewrite, "look": x.look, "deliver": x.deliver, "acknowledge": x.acknowledge,
			"restore": x.restore, "ask": x.ask, "": x.check,
		})
		x.askFor(x.ids...)
		x.sendings = nil
		x.look(rt)
		for i := range x.sendings {
			x.arrive(i)
		}
		for _, s := range x.sendings {
			x.confirm(s.receipt)
		}
		x.check(rt)
		if owed := x.undelivered(); len(owed) > 0 {
			rt.Errorf("after all are sent and confirmed %d are undelivered", len(owed))
		}
	})
}

// deployed is the record of a volume that is on the node.
func deployed(t *rapid.T, id string) store.Record {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	r := &workload.Reservation{
		ID: id, NodeID: "node", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
		Created: time.Unix(1_700_000_000, 0).UTC(), Duration: time.Duration(len(id)+int(id[0])) * time.Hour,
	}
	if err := r.Sign(key); err != nil {
		t.Fatal(err)
	}
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return store.Record{Reservation: r, Hash: h, Phase: store.Deployed, Admitted: true, Begun: true, Accepted: r.Created, Result: newAnswer()}
}

func newAnswer() *workload.Result { return &workload.Result{State: workload.StateOK} }

func (x *exchange) write(rec store.Record) {
	if _, err := x.records.Write(rec); err != nil {
		x.Fatal(err)
	}
}

func (x *exchange) record(id string) store.Record {
	rec, err := x.records.Record(id)
	if err != nil {
		x.Fatal(err)
	}
	return rec
}

func (x *exchange) undelivered() []store.Record {
	owed, err := x.records.Undelivered()
	if err != nil {
		x.Fatal(err)
	}
	return owed
}

func (x *exchange) drawID() string { return rapid.SampledFrom(x.ids).Draw(x.T, "id") }

// drawSending draws one of the sendings that wanted accepts, and skips the step when there is none.
func (x *exchange) drawSending(t *rapid.T, wanted func(s sending) bool) int {
	var which []int
	for i, s := range x.sendings {
		if wanted(s) {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(which).Draw(t, "sending")
}

// answer gives a reservation a newer result.
func (x *exchange) answer(*rapid.T) {
	rec := x.record(x.drawID())
	rec.Result = newAnswer()
	x.write(rec)
	x.lost[rec.ID()] = false // it is undelivered anyhow
}

// copy reads a record, for a later rewrite.
func (x *exchange) copy(*rapid.T) { x.copies = append(x.copies, x.record(x.drawID())) }

// rewrite writes a record for another reason than a result, from a copy that may be old.
func (x *exchange) rewrite(t *rapid.T) {
	if len(x.copies) == 0 {
		t.Skip("there is none")
	}
	rec := rapid.SampledFrom(x.copies).Draw(t, "copy").Clone()
	rec.Attempts++
	x.write(rec)
}

// look has a sender read what is undelivered.
func (x *exchange) look(*rapid.T) {
	for _, rec := range x.undelivered() {
		x.sendings = append(x.sendings, sending{receipt: store.ReceiptFor(rec)})
	}
}

func (x *exchange) deliver(t *rapid.T) {
	x.arrive(x.drawSending(t, func(s sending) bool { return !s.arrived }))
}

// arrive has a result reach the explorer, which keeps the newest.
func (x *exchange) arrive(i int) {
	s := &x.sendings[i]
	s.arrived = true
	if id := s.receipt.ID; x.has[id] <= s.receipt.Sequence {
		x.has[id] = s.receipt.Sequence
	}
}

// acknowledge has some receipts of results that have arrived reach the node in one write.
func (x *exchange) acknowledge(t *rapid.T) {
	first := x.drawSending(t, func(s sending) bool { return s.arrived })
	receipts := []store.Receipt{x.sendings[first].receipt}
	x.sendings = slices.Delete(x.sendings, first, first+1)
	x.sendings = slices.DeleteFunc(x.sendings, func(s sending) bool {
		too := s.arrived && rapid.Bool().Draw(t, "too")
		if too {
			receipts = append(receipts, s.receipt)
		}
		return too
	})
	x.confirm(receipts...)
}

// confirm has receipts reach the node.
func (x *exchange) confirm(receipts ...store.Receipt) {
	if err := x.records.Acknowledge(receipts...); err != nil {
		x.Fatal(err)
	}
}

// restore has the explorer lose a result.
func (x *exchange) restore(*rapid.T) {
	id := x.drawID()
	x.has[id], x.lost[id] = 0, true
}

func (x *exchange) ask(t *rapid.T) {
	x.askFor(rapid.SliceOfN(rapid.SampledFrom(x.ids), 1, 3).Draw(t, "ids")...)
}

// askFor has the explorer ask for results again, whether it has them or not, and for some
// twice.
func (x *exchange) askFor(ids ...string) {
	if err := x.records.Resend(append([]string{"9-9"}, ids...)...); err != nil { // 9-9 is missing, and skipped
		x.Fatal(err)
	}
	for _, id := range ids {
		x.lost[id] = false
	}
}

// check holds that no result is lost.
func (x *exchange) check(*rapid.T) {
	for _, id := range x.ids {
		rec := x.record(id)
		if rec.Delivered && !x.lost[id] && x.has[id] != rec.Result.Sequence {
			x.Fatalf("result %d of %s counts as delivered; the explorer has %d", rec.Result.Sequence, id, x.has[id])
		}
	}
}
