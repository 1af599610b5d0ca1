package drift

import (
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/workqueue"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
)

// Orphan is a workload on the node with a reservation's label that no record wants.
// It is left alone for the grace period, then removed. Several may have one ID,
// each with another hash: each is one by itself.
type Orphan struct {
	Type workload.Type `json:"type"`
	ID   string        `json:"id"`
	// Hash is the hash of the reservation that it was made for; zero when its label has none.
	Hash workload.Hash `json:"hash,omitzero"`
	// Since is when it was first seen, by a trusted clock; zero while there was none.
	// From proves how long ago that was.
	Since time.Time       `json:"since"`
	From  lifecycle.Since `json:"from,omitzero"`
}

// Key identifies the orphan.
func (o Orphan) Key() OrphanKey { return OrphanKey{o.Type, o.Label()} }

// Label is its label on the node.
func (o Orphan) Label() provisioner.Label { return provisioner.Label{ID: o.ID, Hash: o.Hash} }

// OrphanKey identifies an orphan.
type OrphanKey struct {
	Type  workload.Type
	Label provisioner.Label
}

// Orphans are the known orphans, and their removals. It is safe for concurrent use.
type Orphans struct {
	book OrphanBook

	mu    sync.Mutex
	known []Orphan
	read  bool
	// retries holds the failed removals, and when each is tried again, by the node's uptime. going are the
	// removals in flight.
	retries *workqueue.Schedule[OrphanKey]
	going   map[OrphanKey]bool
}

// NewOrphans returns an empty Orphans that keeps them in book, which may be nil.
func NewOrphans(book OrphanBook) *Orphans {
	return &Orphans{book: book, retries: workqueue.NewSchedule[OrphanKey](nil), going: map[OrphanKey]bool{}}
}

// OrphanBook keeps the known orphans over restarts.
type OrphanBook interface {
	Load() ([]Orphan, error)
	Save(orphans []Orphan) error
}

// All returns the known orphans.
func (o *Orphans) All() []Orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.known)
}

// Differ reports whether the orphans found of a type differ from the known ones, or one
// is due.
func (o *Orphans) Differ(t workload.Type, found map[provisioner.Label]provisioner.Seen, wanted func(provisioner.Label) bool, now clock.Reading, grace func(Orphan) time.Duration) bool {
	known := map[OrphanKey]bool{}
	for _, each := range o.All() {
		if each.Type != t {
			continue
		}
		known[each.Key()] = true
		if _, there := found[each.Label()]; !there || wanted(each.Label()) || each.Since.IsZero() && now.Level >= clock.Stop || o.Due(each, now, grace(each)) {
			return true
		}
	}
	for l := range found {
		if !known[OrphanKey{t, l}] && !wanted(l) {
			return true
		}
	}
	return false
}

// Due reports whether an orphan is to be removed now: its grace is proven to be over.
func (o *Orphans) Due(one Orphan, now clock.Reading, grace time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.Key()
	at, later := o.retries.At(k)
	return lifecycle.Lasted(grace, one.From, now) && !o.going[k] && (!later || int64(now.Uptime) >= at)
}

// Removing notes that the removal of an orphan has begun.
func (o *Orphans) Removing(one Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.going[one.Key()] = true
}

// Postpone notes that a removal failed, and returns the pause before the next attempt.
func (o *Orphans) Postpone(one Orphan, now time.Duration, backoff source.Backoff) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.Key()
	delete(o.going, k)
	if !slices.ContainsFunc(o.known, func(other Orphan) bool { return other.Key() == k }) {
		o.retries.Drop(k)
		return 0 // it is gone already
	}
	return o.retries.Retry(k, int64(now), backoff)
}

// Removed notes that an orphan was removed.
func (o *Orphans) Removed(one Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := one.Key()
	delete(o.going, k)
	o.retries.Drop(k)
	o.known = slices.DeleteFunc(o.known, func(other Orphan) bool { return other.Key() == k })
}

// Set replaces the known orphans. The failed removals of those that are gone are forgotten.
func (o *Orphans) Set(known []Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.read = known, true
	still := make(map[OrphanKey]bool, len(known))
	for _, each := range known {
		still[each.Key()] = true
	}
	o.retries.DropUnless(func(k OrphanKey) bool { return still[k] })
}

// Load returns the known orphans: from the book before the first Set, from memory without a book.
func (o *Orphans) Load() ([]Orphan, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.read || o.book == nil {
		return slices.Clone(o.known), nil
	}
	known, err := o.book.Load()
	return known, err
}

// Save writes the orphans into the book.
func (o *Orphans) Save(known []Orphan) error {
	if o.book == nil {
		return nil
	}
	return o.book.Save(known)
}

// Size is the number of remembered removals and failures, and of known orphans.
func (o *Orphans) Size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.going) + max(o.retries.Failing(), o.retries.Len()) + len(o.known)
}

// InFlight is the number of removals in flight.
func (o *Orphans) InFlight() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.going)
}
