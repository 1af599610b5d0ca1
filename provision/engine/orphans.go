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
// record wants it. It is left alone for the grace period, then removed.
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
func (o Orphan) key() orphanKey { return orphanKey{o.Type, o.ID, o.Hash} }

type orphanKey struct {
	kind workload.Type
	id   string
	hash workload.Hash
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
	return !rec.Tombstone() && owns(rec, provisioner.Seen{Hash: h})
}

// wanted tells whether a record wants what has its label.
func (c *compared) wanted(recs []store.Record) func(id string, h workload.Hash) bool {
	listed := make(map[string]store.Record, len(recs))
	for _, rec := range recs {
		listed[rec.ID()] = rec
	}
	return func(id string, h workload.Hash) bool {
		rec, known := listed[id]
		if !known { // a cache can't list what it had before this process began
			var err error
			if rec, err = c.parts.Records.Record(id); err != nil {
				return false
			}
		}
		return adopts(rec, h)
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
		if there[each.Type] == nil || c.parts.Provisioners[each.Type] == nil || !o.due(each, c.now, c.parts.Limits.Grace) || c.lost(each) {
			continue
		}
		rec := store.Record{Reservation: &workload.Reservation{ID: each.ID, Type: each.Type}}
		if err := c.flights.begin(&flight{kind: removeOrphan, rec: rec, orphan: each, queued: time.Now()}); err == nil {
			o.begun(each)
		}
	}
}

// found is what is there and not wanted, with since when from old. What a
// module that didn't answer may have stays as it was.
func (c *compared) found(there seen, wanted func(id string, h workload.Hash) bool, old []Orphan) []Orphan {
	before := make(map[orphanKey]Orphan, len(old))
	var out []Orphan
	for _, each := range old {
		before[each.key()] = each
		if there[each.Type] == nil && !wanted(each.ID, each.Hash) {
			out = append(out, each)
		}
	}
	for t, ids := range there {
		for id, what := range ids {
			if wanted(id, what.Hash) {
				continue
			}
			one, known := before[orphanKey{t, id, what.Hash}]
			if !known {
				one = Orphan{Type: t, ID: id, Hash: what.Hash}
				c.parts.Log.Warn().Str("id", id).Str("type", string(t)).Dur("grace", c.parts.Limits.Grace).
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
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID), slices.Compare(a.Hash[:], b.Hash[:]))
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
		c.parts.Log.Error().Str("id", o.ID).Str("type", string(o.Type)).Str("step", "remove orphan").Time("since", o.Since).Dur("again", again).
			Err(err).Msg("cannot remove an orphan whose grace is over: tried again")
		return nil
	}
	c.notes.orphans.removed(o)
	c.free()
	c.parts.Log.Warn().Str("id", o.ID).Str("type", string(o.Type)).Time("since", o.Since).Msg("orphan removed: its grace is over")
	return nil
}

// differ reports whether there is anything to do about what was seen of a type.
func (o *orphans) differ(t workload.Type, found map[string]provisioner.Seen, wanted func(string, workload.Hash) bool, now clock.Reading, grace time.Duration) bool {
	known := map[orphanKey]bool{}
	for _, each := range o.all() {
		if each.Type != t {
			continue
		}
		known[each.key()] = true
		what, there := found[each.ID]
		if !there || what.Hash != each.Hash || wanted(each.ID, each.Hash) || each.Since.IsZero() && now.Level >= clock.Stop || o.due(each, now, grace) {
			return true
		}
	}
	for id, what := range found {
		if !known[orphanKey{t, id, what.Hash}] && !wanted(id, what.Hash) {
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
