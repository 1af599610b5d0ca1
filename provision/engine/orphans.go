package engine

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Orphan is something on the node that carries a reservation's label while no
// record wants it. It is left alone for the grace period, then removed. Several may
// have one ID, each with another hash: each is one by itself.
type Orphan struct {
	Type workload.Type `json:"type"`
	ID   string        `json:"id"`
	// Hash is the reservation's that it was made for; zero when its label has none.
	Hash workload.Hash `json:"hash,omitzero"`
	// Since is when it was first seen, by a clock that could be trusted; zero
	// while there was none. From proves how long ago that was.
	Since time.Time       `json:"since"`
	From  lifecycle.Since `json:"from,omitzero"`
}

// key is what an orphan is known by.
func (o Orphan) key() orphanKey { return orphanKey{o.Type, o.label()} }

// label is what it carries on the node.
func (o Orphan) label() provisioner.Label { return provisioner.Label{ID: o.ID, Hash: o.Hash} }

type orphanKey struct {
	kind  workload.Type
	label provisioner.Label
}

// orphans is what is known of them. It is safe for concurrent use.
type orphans struct {
	book OrphanBook

	mu    sync.Mutex
	known []Orphan
	read  bool
	// failed counts the removals in a row that failed; until retry, by the node's
	// uptime, none is tried again. going are those that are being removed.
	failed map[orphanKey]int
	retry  map[orphanKey]time.Duration
	going  map[orphanKey]bool
}

func newOrphans(book OrphanBook) *orphans {
	return &orphans{book: book, failed: map[orphanKey]int{}, retry: map[orphanKey]time.Duration{}, going: map[orphanKey]bool{}}
}

// Orphans returns what is on the node that no record wants, by type and ID.
func (e *Engine) Orphans() []Orphan {
	return slices.DeleteFunc(e.notes.orphans.all(), func(o Orphan) bool {
		rec, err := e.parts.Records.Record(o.ID)
		return err == nil && adopts(rec, o.Hash) // it was adopted since
	})
}

func (o *orphans) all() []Orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.known)
}

// adopts reports whether what has a record's ID and that hash is the record's.
func adopts(rec store.Record, h workload.Hash) bool {
	return !rec.Tombstone() && owns(rec, h)
}

// wanted tells whether a record wants what has its label.
func (c *compared) wanted(recs []store.Record) func(l provisioner.Label) bool {
	listed := make(map[string]store.Record, len(recs))
	for _, rec := range recs {
		listed[rec.ID()] = rec
	}
	return func(l provisioner.Label) bool {
		rec, known := listed[l.ID]
		if !known { // a cache can't list what it had before this process began
			var err error
			if rec, err = c.parts.Records.Record(l.ID); err != nil {
				return false
			}
		}
		return adopts(rec, l.Hash)
	}
}

// orphaned notes the orphans, and has those removed whose grace is over.
func (c *compared) orphaned(there seen, recs []store.Record) {
	o := c.notes.orphans
	old, err := o.load()
	if err != nil {
		c.parts.Log.Error().Err(err).Msg("cannot read since when orphans are known: their grace begins anew")
	}
	known := c.found(there, c.wanted(recs), old)
	if !slices.Equal(known, old) {
		if err := o.save(known); err != nil {
			c.parts.Log.Error().Err(err).Msg("cannot keep since when orphans are known")
		}
	}
	o.set(known)
	for _, each := range known {
		if there[each.Type] == nil || c.parts.Provisioners[each.Type] == nil || !o.due(each, c.now, c.grace(each)) || c.lost(each) {
			continue
		}
		rec := store.Record{Reservation: &workload.Reservation{ID: each.ID, Type: each.Type}}
		if err := c.flights.begin(&flight{kind: removeOrphan, rec: rec, orphan: each, queued: time.Now()}); err == nil {
			o.begun(each)
		}
	}
}

// grace is how long an orphan is left alone. What has the hash of a reservation that
// has ended needs none: its end was proven and it was taken down, so a module made it
// after that, by a call that nobody waited for any more. It may run in nobody's name.
func (c *compared) grace(o Orphan) time.Duration {
	if rec, err := c.parts.Records.ByHash(o.Hash); err == nil && rec.Phase == lifecycle.Ended && rec.Reservation.Type == o.Type {
		return 0
	}
	return c.parts.Limits.Grace
}

// found is what is there and not wanted, with since when from old. What a
// module that didn't answer may have stays as it was.
func (c *compared) found(there seen, wanted func(provisioner.Label) bool, old []Orphan) []Orphan {
	before := make(map[orphanKey]Orphan, len(old))
	var out []Orphan
	for _, each := range old {
		before[each.key()] = each
		if there[each.Type] == nil && !wanted(each.label()) {
			out = append(out, each)
		}
	}
	for t, labels := range there {
		for l := range labels {
			if wanted(l) {
				continue
			}
			one, known := before[orphanKey{t, l}]
			if !known {
				one = Orphan{Type: t, ID: l.ID, Hash: l.Hash}
				c.parts.Log.Warn().Str("id", l.ID).Str("type", string(t)).Str("hash", hashText(l.Hash)).Dur("grace", c.parts.Limits.Grace).
					Msg("orphan: it has a reservation's label and no record wants it")
			}
			if !one.From.Known {
				one.From = lifecycle.From(c.now)
			}
			if one.Since.IsZero() && c.now.Level >= clock.Stop {
				one.Since = c.now.Now
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), a.label().Compare(b.label()))
	})
	return out
}

// lost reports whether an orphan holds the data of a workload that was validly
// asked for and hasn't ended, as far as is known. One whose record was damaged
// stays until that is back, or the operator removes the damaged file; one whose
// reservation came under another ID, by an explorer that lies, until its end.
func (c *compared) lost(o Orphan) bool {
	if !provisioner.FactsOf(c.parts.Provisioners[o.Type]).HoldsData {
		return false
	}
	if rec, found, err := c.ledger.byHash(o.Hash); err != nil || found && rec.Phase != lifecycle.Ended && !lifecycle.Proven(rec.Reservation.Expires(), rec.Since, c.now) {
		return true
	}
	records, ok := c.parts.Records.(damaged)
	return ok && slices.ContainsFunc(records.Quarantined(), func(q store.Quarantine) bool { return q.ID == o.ID })
}

// orphanEnded takes in how the removal of an orphan ended.
func (c *compared) orphanEnded(f *flight, err error) error {
	o := f.orphan
	if err != nil {
		again := c.notes.orphans.postpone(o, c.now.Uptime, c.parts.Limits.Retry)
		c.parts.Log.Error().Str("id", o.ID).Str("type", string(o.Type)).Str("hash", hashText(o.Hash)).Str("step", "remove orphan").Time("since", o.Since).Dur("again", again).
			Err(err).Msg("cannot remove an orphan: tried again")
		return nil
	}
	c.notes.orphans.removed(o)
	c.free()
	c.parts.Log.Warn().Str("id", o.ID).Str("type", string(o.Type)).Str("hash", hashText(o.Hash)).Time("since", o.Since).Msg("orphan removed")
	return nil
}

// hashText is the hash of a label in the log, empty when it has none.
func hashText(h workload.Hash) string {
	if h == (workload.Hash{}) {
		return ""
	}
	return h.Hex()
}

// differ reports whether there is anything to do about what was seen of a type.
func (o *orphans) differ(t workload.Type, found map[provisioner.Label]provisioner.Seen, wanted func(provisioner.Label) bool, now clock.Reading, grace func(Orphan) time.Duration) bool {
	known := map[orphanKey]bool{}
	for _, each := range o.all() {
		if each.Type != t {
			continue
		}
		known[each.key()] = true
		if _, there := found[each.label()]; !there || wanted(each.label()) || each.Since.IsZero() && now.Level >= clock.Stop || o.due(each, now, grace(each)) {
			return true
		}
	}
	for l := range found {
		if !known[orphanKey{t, l}] && !wanted(l) {
			return true
		}
	}
	return false
}

// due reports whether an orphan is to be removed now: its grace is over by proof.
func (o *orphans) due(one Orphan, now clock.Reading, grace time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.key()
	return lifecycle.Lasted(grace, one.From, now) && !o.going[k] && now.Uptime >= o.retry[k]
}

func (o *orphans) begun(one Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.going[one.key()] = true
}

// postpone notes that a removal failed, and returns how long it rests.
func (o *orphans) postpone(one Orphan, now time.Duration, backoff source.Backoff) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.key()
	delete(o.going, k)
	if !slices.ContainsFunc(o.known, func(other Orphan) bool { return other.key() == k }) {
		delete(o.failed, k)
		delete(o.retry, k)
		return 0 // it is gone, whoever took it
	}
	o.failed[k]++
	wait := backoff.Delay(o.failed[k])
	o.retry[k] = now + wait
	return wait
}

func (o *orphans) removed(one Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.key()
	delete(o.going, k)
	delete(o.failed, k)
	delete(o.retry, k)
	o.known = slices.DeleteFunc(o.known, func(other Orphan) bool { return other.key() == k })
}

// set takes what is known now. What isn't there any more, has nothing that failed.
func (o *orphans) set(known []Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.read = known, true
	still := make(map[orphanKey]bool, len(known))
	for _, each := range known {
		still[each.key()] = true
	}
	maps.DeleteFunc(o.failed, func(k orphanKey, _ int) bool { return !still[k] })
	maps.DeleteFunc(o.retry, func(k orphanKey, _ time.Duration) bool { return !still[k] })
}

// load reads the book once; without one it knows what it saw itself.
func (o *orphans) load() ([]Orphan, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.read || o.book == nil {
		return slices.Clone(o.known), nil
	}
	known, err := o.book.Load()
	return known, err
}

func (o *orphans) save(known []Orphan) error {
	if o.book == nil {
		return nil
	}
	return o.book.Save(known)
}
