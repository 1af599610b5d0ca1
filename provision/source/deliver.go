package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/refusals"
)

// document is a reservation of a page, with the sum of its text.
type document struct {
	reservation *workload.Reservation
	sum         [sha256.Size]byte
}

// delivery hands the documents of pages to the engine, and remembers which
// documents of a repeated page have been handled.
type delivery struct {
	refusals *refusals.Counts
	log      zerolog.Logger
	done     map[[sha256.Size]byte]bool
}

func newDelivery(counts *refusals.Counts, log zerolog.Logger) *delivery {
	return &delivery{refusals: counts, log: log, done: map[[sha256.Size]byte]bool{}}
}

// forget is called before another page, or when everything is wanted again.
func (d *delivery) forget() { clear(d.done) }

// page hands over the documents of a page that weren't handled yet, in the order
// to handle them, and waits until all have been. It fails when one of them has to
// come again.
func (d *delivery) page(ctx context.Context, out chan<- Item, raw []json.RawMessage) error {
	batch := d.decode(raw)
	handled := make(chan handledDocument, len(batch))
	for _, doc := range batch {
		done := func(err error) { handled <- handledDocument{doc, err} }
		if !send(ctx, out, Item{Kind: Arrived, Reservation: doc.reservation, Done: done}) {
			return ctx.Err()
		}
	}
	var failed error
	for range batch {
		select {
		case h := <-handled:
			if err := d.settle(h); err != nil && failed == nil {
				failed = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failed
}

// handledDocument is the engine's answer to a document.
type handledDocument struct {
	document
	err error
}

// settle returns the error of a document that has to come again. One that is
// refused for good mustn't hold up its page: no retry makes it acceptable.
func (d *delivery) settle(h handledDocument) error {
	if h.err != nil && worthAnotherTry(node.KindOf(h.err)) {
		return h.err
	}
	if h.err != nil {
		d.log.Warn().Str("id", h.reservation.ID).Str("type", string(h.reservation.Type)).Err(h.err).
			Msg("cannot keep a document of the explorer's page: skipped")
	}
	d.done[h.sum] = true
	return nil
}

// worthAnotherTry reports whether a document that couldn't be kept may be later.
// NoSpace means a full disk of the node here, which passes: a reservation that
// doesn't fit on the node counts as handled, and its user is told.
func worthAnotherTry(k node.Kind) bool { return !k.Final() || k == node.NoSpace }

// decode reads the documents. One that isn't a reservation costs only itself.
// Errors in a reservation's data are judged after its signature, so that the user
// who signed it gets an answer; so none is refused here for them.
func (d *delivery) decode(raw []json.RawMessage) []document {
	batch := make([]document, 0, len(raw))
	for _, text := range raw {
		doc := document{sum: sha256.Sum256(text)}
		if d.done[doc.sum] {
			continue
		}
		if err := json.Unmarshal(text, &doc.reservation); err != nil || doc.reservation == nil {
			d.refusals.Add(refusals.Unreadable)
			d.log.Warn().Err(err).Int("bytes", len(text)).Msg("cannot read a document of the explorer's page: skipped")
			d.done[doc.sum] = true
			continue
		}
		batch = append(batch, doc)
	}
	orderBy(batch, func(doc document) *workload.Reservation { return doc.reservation })
	return batch
}
