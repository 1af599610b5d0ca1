package seed

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// cacheRecords implements store.Records on a cache that knows deployed reservations only.
// The records are in memory: the cache's Add follows a deployment, Remove an end, and
// undelivered results are lost with the process.
type cacheRecords struct {
	cache workload.ReservationCache
	birth string

	mu       sync.Mutex
	records  map[string]store.Record
	sequence int64
}

func newCacheRecords(cache workload.ReservationCache) (*cacheRecords, error) {
	birth := make([]byte, 16)
	if _, err := rand.Read(birth); err != nil {
		return nil, node.WithKind(node.Internal, err)
	}
	return &cacheRecords{cache: cache, birth: hex.EncodeToString(birth), records: map[string]store.Record{}}, nil
}

// Write implements store.Records. Records that the cache took before a failure stay in it.
func (c *cacheRecords) Write(recs ...store.Record) ([]store.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]store.Record, 0, len(recs))
	for _, r := range recs {
		written, err := c.write(r)
		if err != nil {
			return nil, err
		}
		out = append(out, written)
	}
	return out, nil
}

func (c *cacheRecords) write(r store.Record) (store.Record, error) {
	id := r.ID()
	old, known := c.find(id)
	if known && old.Hash != r.Hash && old.Phase != store.Dismissed {
		return r, node.Errorf(node.Exist, "cannot store record %s: the ID is another reservation's", id)
	}
	for other, rec := range c.records {
		if other != id && rec.Hash == r.Hash && rec.Phase != store.Dismissed && r.Phase != store.Dismissed {
			return r, node.Errorf(node.Exist, "cannot store record %s: reservation %s is the same request", id, other)
		}
	}
	if err := c.mirror(r, old.Phase); err != nil {
		return r, err
	}
	r = r.Clone()
	r.Resends = old.Resends
	switch {
	case r.Result != nil && r.Result.Sequence == 0:
		c.sequence++
		r.Result.Sequence, r.Result.Birth, r.Result.Hash = c.sequence, c.birth, slices.Clone(r.Hash[:])
		r.Result.NodeID = r.Reservation.NodeID
		r.Delivered = false
	case known && old.Hash == r.Hash && old.Result != nil && (r.Result == nil || r.Result.Sequence <= old.Result.Sequence):
		r.Result, r.Delivered = old.Result, old.Delivered
	}
	c.keep(id, r)
	return r.Clone(), nil
}

// mirror updates the cache to the record's new phase.
func (c *cacheRecords) mirror(r store.Record, before store.Phase) error {
	deployed, was := r.Phase == store.Deployed, before == store.Deployed
	switch {
	case deployed && !was:
		there, err := c.cache.Exists(r.ID())
		if err != nil || there {
			return err
		}
		return c.cache.Add(r.Reservation)
	case r.Phase.Tombstone():
		there, err := c.cache.Exists(r.ID())
		if err != nil || !there {
			return err
		}
		return c.cache.Remove(r.ID())
	}
	return nil
}

// find returns the record of that ID: its own, or one made from the cache's reservation.
func (c *cacheRecords) find(id string) (store.Record, bool) {
	if rec, ok := c.records[id]; ok {
		return rec.Clone(), true
	}
	there, err := c.cache.Exists(id)
	if err != nil || !there {
		return store.Record{}, false
	}
	r, err := c.cache.Get(id)
	if err != nil || r == nil {
		return store.Record{}, false
	}
	rec, err := store.Adopted(r, r.Created)
	return rec, err == nil
}

// Resend implements store.Records.
func (c *cacheRecords) Resend(ids ...string) error {
	for _, id := range ids {
		err := c.edit(id, func(r *store.Record) {
			if r.Result != nil {
				r.Delivered, r.Resends = false, r.Resends+1
			}
		})
		if err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return nil
}

// Acknowledge implements store.Records.
func (c *cacheRecords) Acknowledge(receipts ...store.Receipt) error {
	for _, receipt := range receipts {
		err := c.edit(receipt.ID, func(r *store.Record) {
			if receipt.Confirms(*r) {
				r.Delivered = true
			}
		})
		if err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return nil
}

// Bury implements store.Records.
func (c *cacheRecords) Bury(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec, ok := c.records[id]
	switch {
	case !ok:
		return node.Errorf(node.NotExist, "cannot bury record %s: there is none", id)
	case !rec.Tombstone():
		return node.Errorf(node.Refused, "cannot bury record %s: its phase is %q", id, rec.Phase)
	case rec.Result != nil && !rec.Delivered:
		return node.Errorf(node.Busy, "cannot bury record %s: the explorer doesn't have its result", id)
	}
	delete(c.records, id)
	return nil
}

func (c *cacheRecords) edit(id string, change func(r *store.Record)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec, ok := c.records[id]
	if !ok {
		return node.Errorf(node.NotExist, "cannot find record %s: there is none", id)
	}
	change(&rec)
	c.keep(id, rec)
	return nil
}

// keep keeps a record, unless it is Dismissed and has no result left to deliver.
func (c *cacheRecords) keep(id string, r store.Record) {
	if r.Phase == store.Dismissed && (r.Result == nil || r.Delivered) {
		delete(c.records, id)
		return
	}
	c.records[id] = r
}

// Record implements store.Records.
func (c *cacheRecords) Record(id string) (store.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec, ok := c.find(id)
	if !ok {
		return rec, node.Errorf(node.NotExist, "cannot find record %s: there is none", id)
	}
	return rec, nil
}

// ByHash implements store.Records.
func (c *cacheRecords) ByHash(h workload.Hash) (store.Record, error) {
	found := c.collect(func(r store.Record) bool { return r.Hash == h && r.Phase != store.Dismissed })
	if len(found) == 0 {
		return store.Record{}, node.Errorf(node.NotExist, "cannot find a record with that hash: there is none")
	}
	return found[0], nil
}

// Undelivered implements store.Records.
func (c *cacheRecords) Undelivered() ([]store.Record, error) {
	owed := c.collect(func(r store.Record) bool { return r.Result != nil && !r.Delivered })
	slices.SortFunc(owed, func(a, b store.Record) int { return cmp.Compare(a.Result.Sequence, b.Result.Sequence) })
	return owed, nil
}

// List implements store.Records. Reservations that the cache held before the process began
// aren't in it: a cache can't list them.
func (c *cacheRecords) List() ([]store.Record, error) {
	return c.collect(func(store.Record) bool { return true }), nil
}

// OfType implements store.Records, with the same reservations left out.
func (c *cacheRecords) OfType(t workload.Type) ([]store.Record, error) {
	return c.collect(func(r store.Record) bool { return r.Reservation.Type == t && !r.Tombstone() }), nil
}

// Count implements store.Records.
func (c *cacheRecords) Count(p store.Phase) int {
	return len(c.collect(func(r store.Record) bool { return r.Phase == p }))
}

// Counters implements store.Records with the cache's own: it may hold more reservations
// than there are records.
func (c *cacheRecords) Counters() workload.ProvisionCounters { return c.cache.Counters() }

// Usage implements store.Records. It sums no demands, because such an engine has no admission.
func (c *cacheRecords) Usage(user string) (of, all store.Usage) {
	for _, r := range c.collect(func(r store.Record) bool { return r.Phase != store.Dismissed }) {
		one := store.Usage{Records: 1}
		if r.Present() {
			one.Workloads = 1
		}
		if r.Phase == store.Waiting {
			one.Waiting = 1
		}
		all = all.Plus(one)
		if r.Reservation.User == user {
			of = of.Plus(one)
		}
	}
	return of, all
}

// Named implements store.Records.
func (c *cacheRecords) Named(key store.NetworkKey) ([]store.Record, error) {
	found := c.collect(func(r store.Record) bool { return r.Name == key && r.HoldsName() })
	slices.SortStableFunc(found, func(a, b store.Record) int { return a.Reservation.Created.Compare(b.Reservation.Created) })
	return found, nil
}

// Newest implements store.Records.
func (c *cacheRecords) Newest(key store.NetworkKey) (time.Time, bool) {
	found, _ := c.Named(key)
	if len(found) == 0 {
		return time.Time{}, false
	}
	return found[len(found)-1].Reservation.Created, true
}

// collect returns copies of the records that wanted selects, by ID.
func (c *cacheRecords) collect(wanted func(r store.Record) bool) []store.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []store.Record
	for _, r := range c.records {
		if wanted(r) {
			out = append(out, r.Clone())
		}
	}
	slices.SortFunc(out, func(a, b store.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return out
}
