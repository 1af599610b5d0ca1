// Package uses says who uses whose workload: which effects conflict, who has to leave before whom, and who waits for
// that. It is computed from the records, starts nothing, and is for one goroutine.
package uses

import (
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// Uses is who uses whose workload: a container its network and its volumes. It follows from the records: a workload
// uses others from its intent on, until nothing of it runs.
type Uses struct {
	of map[string]usage
	// users are the names of the workloads that use a key, by their IDs; owners the IDs of the records that have it.
	users  map[string]map[string]string
	owners map[string]map[string]bool
}

// usage is a record's part in it.
type usage struct {
	hash    workload.Hash
	own     string
	needs   []string
	holds   bool
	blocked bool
}

// New returns Uses without a record.
func New() *Uses {
	return &Uses{of: map[string]usage{}, users: map[string]map[string]string{}, owners: map[string]map[string]bool{}}
}

// Set updates a record's part. It returns the IDs of the records whose users have changed.
func (u *Uses) Set(rec store.Record) []string {
	id := rec.ID()
	was, known := u.of[id]
	var changed []string
	if rec.Tombstone() || known && was.hash != rec.Hash {
		changed, known = u.Drop(id), false
	}
	if rec.Tombstone() {
		return changed
	}
	is := was
	if !known {
		is = usage{hash: rec.Hash}
		is.own, is.needs = partsOf(rec)
	}
	is.holds, is.blocked = Holds(rec), rec.Phase == lifecycle.Blocked
	u.of[id] = is
	if is.own != "" {
		add(u.owners, is.own, id, true)
	}
	for _, key := range is.needs {
		_, before := u.users[key][id]
		if before == is.holds {
			continue
		}
		if is.holds {
			add(u.users, key, id, Name(rec))
		} else {
			remove(u.users, key, id)
		}
		changed = append(changed, u.ownersOf(key)...)
	}
	return changed
}

// Drop forgets a record. It returns the IDs of the records whose users have changed.
func (u *Uses) Drop(id string) (changed []string) {
	was, known := u.of[id]
	if !known {
		return nil
	}
	delete(u.of, id)
	remove(u.owners, was.own, id)
	for _, key := range was.needs {
		if _, used := u.users[key][id]; used {
			remove(u.users, key, id)
			changed = append(changed, u.ownersOf(key)...)
		}
	}
	return changed
}

// Holds reports whether a record's workload uses those that it refers to. One whose last attempt failed doesn't: it
// may be waiting for one of them, which leaves.
func Holds(rec store.Record) bool {
	switch rec.Phase {
	case lifecycle.Intent, lifecycle.Deployed, lifecycle.Replaced, lifecycle.Stopping, lifecycle.Leaving, lifecycle.Blocked:
		return rec.Begun
	}
	return false
}

// partsOf are the key by which others refer to a record's workload, empty when nothing can, and the keys of those that it needs. The ID is a key of volumes
// alone: explorers choose IDs, so a container's may be that of a volume which it mounts.
func partsOf(rec store.Record) (own string, needs []string) {
	switch {
	case rec.Name != (lifecycle.NameKey{}):
		own = nameKey(rec.Name)
	case rec.Reservation.Type == workload.TypeVolume:
		own = volumeKey(rec.Reservation.User, rec.ID())
	}
	for _, key := range Keys(rec.Reservation) {
		if key.Shared {
			needs = append(needs, key.Name)
		}
	}
	return own, needs
}

// UsersOf are the names of the workloads that use a record's, in order. What has another record of its name isn't its own.
func (u *Uses) UsersOf(rec store.Record) []string {
	var out []string
	for _, name := range u.users[u.of[rec.ID()].own] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// InUse reports whether a record's workload has to stay because others use it. A network that another record
// of its name keeps up may go: its users stay with that one.
func (u *Uses) InUse(rec store.Record) bool {
	own := u.of[rec.ID()].own
	return len(u.users[own]) > 0 && len(u.owners[own]) == 1
}

// FreedBy are the IDs of the blocked records that may go on once rec has left.
func (u *Uses) FreedBy(rec store.Record) []string {
	if rec.Reservation == nil {
		return nil
	}
	var out []string
	for _, key := range Keys(rec.Reservation) {
		for _, id := range u.ownersOf(key.Name) {
			if u.of[id].blocked {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// All are the IDs of the records that aren't tombstones.
func (u *Uses) All() []string {
	return slices.Collect(maps.Keys(u.of))
}

// Blocked are the IDs of all blocked records.
func (u *Uses) Blocked() []string {
	var out []string
	for id, each := range u.of {
		if each.blocked {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (u *Uses) ownersOf(key string) []string {
	out := make([]string, 0, len(u.owners[key]))
	for id := range u.owners[key] {
		out = append(out, id)
	}
	return out
}

func add[T any](m map[string]map[string]T, key, id string, value T) {
	if m[key] == nil {
		m[key] = map[string]T{}
	}
	m[key][id] = value
}

func remove[T any](m map[string]map[string]T, key, id string) {
	if delete(m[key], id); len(m[key]) == 0 {
		delete(m, key)
	}
}

// Name is a record's workload as an event, or another's finalizer, names it.
func Name(rec store.Record) string { return string(rec.Reservation.Type) + "/" + rec.ID() }

// Size is the number of entries, for tests and figures.
func (u *Uses) Size() int { return len(u.of) + len(u.users) + len(u.owners) }
