package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// simExplorer holds the users' signed documents, and delivers them to the node as it likes.
type simExplorer struct {
	docs []*simDoc
	// pending are the deliveries that the node hasn't handled yet.
	pending []*simDelivery
	ids     int
	// results are the answers by birth and sequence.
	results map[string]string
}

// simDelivery is one document on its way.
type simDelivery struct {
	doc *simDoc
	r   workload.Reservation
	// handed is whether the node has it and hasn't finished it.
	handed bool
	// once is whether it is delivered only once, whatever the outcome.
	once bool
}

// push queues a document in its present state for delivery.
func (e *simExplorer) push(doc *simDoc) {
	e.pending = append(e.pending, &simDelivery{doc: doc, r: doc.r})
}

// crashed is called when the node's process ended: unfinished deliveries come again.
func (e *simExplorer) crashed() {
	for _, d := range e.pending {
		d.handed = false
	}
}

func (e *simExplorer) drop(d *simDelivery) {
	e.pending = slices.DeleteFunc(e.pending, func(other *simDelivery) bool { return other == d })
}

// bring hands a delivery to the node. It returns the input, nil when it was
// dropped unread.
func (s *simulation) bring(d *simDelivery) []input {
	e, n := s.explorer, s.node
	d.handed = true
	r := d.r
	s.say("  brings %s %s: deletion %t, renewal %t", r.Type, r.ID, r.Deletion != nil, r.Renewal != nil)
	done := func(err error) {
		if s.node != n || s.disk.dead {
			return
		}
		d.handed = false
		if err != nil && (!node.KindOf(err).Final() || node.KindOf(err) == node.NoSpace) && !d.once {
			s.say("  %s has to come again: %v", r.ID, err)
			return
		}
		e.drop(d)
		if err == nil {
			s.handled(d)
		}
	}
	a := n.checker.check(source.Item{Kind: source.Arrived, Reservation: &r, Done: done})
	if a == nil {
		e.drop(d) // it doesn't verify
		return nil
	}
	return []input{n.desk.intake.arrived(a)}
}

// handled notes the durable outcome of a delivery.
func (s *simulation) handled(d *simDelivery) {
	if d.r.Renewal == nil || d.doc == nil {
		return
	}
	rec, err := s.node.store.Record(d.r.ID)
	if err != nil || rec.Hash != d.doc.hash || rec.Phase.Tombstone() || rec.Phase == "leaving" {
		return
	}
	if d.doc.renewals[string(d.r.Renewal.Signature)] && d.r.Renewal.Expires.After(d.doc.end) {
		d.doc.end = d.r.Renewal.Expires
		s.say("  %s now lasts until %s", d.r.ID, s.at(d.doc.end))
	}
}

// lie is a document that the explorer forged; nil when there is nothing to forge
// it from.
func (s *simulation) lie(rnd *rand.Rand) *simDelivery {
	e := s.explorer
	if len(e.docs) == 0 {
		return nil
	}
	doc, other := e.docs[rnd.IntN(len(e.docs))], e.docs[rnd.IntN(len(e.docs))]
	d := &simDelivery{doc: doc, r: doc.r, once: true}
	kind := rnd.IntN(9)
	s.say("the explorer lies (%d)", kind)
	switch kind {
	case 0: // another's ID
		d.r.ID = other.r.ID
		doc.lied, other.lied = true, true
	case 1: // a new ID
		e.ids++
		d.r.ID = fmt.Sprintf("%d-1", e.ids)
		doc.lied = true
	case 2: // a replay from before its deletion or renewal
		d.r.Deletion, d.r.Renewal = nil, nil
	case 3:
		d.r.Deletion = &workload.Deletion{Created: s.clock.now, Signature: []byte("forged")}
	case 4:
		d.r.Renewal = &workload.Renewal{Expires: s.clock.now.Add(time.Hour), Signature: []byte("forged")}
	case 5: // another's signatures
		d.r.Deletion, d.r.Renewal = other.r.Deletion, other.r.Renewal
	case 6:
		d.r.Data, d.r.Type = other.r.Data, other.r.Type
	case 7:
		d.r.Duration += time.Hour
	case 8: // its renewal without its deletion
		d.r.Deletion = nil
	}
	return d
}

// send has one undelivered result reach the explorer, and its acknowledgement the
// node, if acked.
func (s *simulation) send(which int, acked bool) {
	owed, err := s.node.store.Undelivered()
	if err != nil || len(owed) == 0 {
		return
	}
	rec := owed[which%len(owed)]
	s.answered(rec)
	if !acked {
		return
	}
	s.say("  answer to %s: %s %q", rec.ID(), rec.Result.State, rec.Result.Error)
	if err := s.node.store.Acknowledge(store.ReceiptFor(rec)); err != nil && node.KindOf(err) != node.NotExist {
		s.say("  cannot acknowledge: %v", err)
	}
	s.node.desk.panel.change(rec.ID())
	s.node.desk.panel.show()
	s.check()
}
