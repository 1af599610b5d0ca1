package engine

import (
	"slices"

	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// blocked are the records that can't leave before their users have, by the key
// that these hold: a record that leaves frees those that it used, and no others.
type blocked struct {
	by map[string]map[string]bool
	of map[string]string
}

func newBlocked() *blocked {
	return &blocked{by: map[string]map[string]bool{}, of: map[string]string{}}
}

// set updates a record's entry.
func (b *blocked) set(rec store.Record) {
	id := rec.ID()
	if key, was := b.of[id]; was {
		delete(b.by[key], id)
		if len(b.by[key]) == 0 {
			delete(b.by, key)
		}
		delete(b.of, id)
	}
	if rec.Phase != lifecycle.Blocked {
		return
	}
	key := volumeKey(rec.Reservation.User, id)
	if rec.Name != (lifecycle.NameKey{}) {
		key = nameKey(rec.Name)
	}
	if b.by[key] == nil {
		b.by[key] = map[string]bool{}
	}
	b.by[key][id], b.of[id] = true, key
}

// freedBy returns the IDs of the records that may go on once rec has left.
func (b *blocked) freedBy(rec store.Record) []string {
	if len(b.of) == 0 || rec.Reservation == nil {
		return nil
	}
	var out []string
	for _, key := range keysOf(rec.Reservation) {
		for id := range b.by[key.Name] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// all returns the IDs of all blocked records.
func (b *blocked) all() []string {
	out := make([]string, 0, len(b.of))
	for id := range b.of {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
