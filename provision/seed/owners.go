package seed

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/container"
	"github.com/croft-edge/croft/provision/store"
)

// Owners tells of the node's own records whose workloads are here: what may be
// used together must be the same user's.
type Owners struct {
	records store.Records
}

// NewOwners makes Owners of those records.
func NewOwners(records store.Records) *Owners { return &Owners{records: records} }

// Owner implements container.Owners: it returns whose a reservation is that is
// on this node, or is about to be. NotExist when there is none.
func (o *Owners) Owner(reservationID string) (container.Owner, error) {
	rec, err := o.records.Record(reservationID)
	if err != nil {
		return container.Owner{}, err
	}
	if !here(rec) {
		return container.Owner{}, node.Errorf(node.NotExist, "reservation %s is %s", reservationID, rec.Phase)
	}
	return container.Owner{User: rec.Reservation.User, Type: rec.Reservation.Type, Hash: rec.Hash}, nil
}

// OwnerOf implements OwnerCache: it returns the user alone.
func (o *Owners) OwnerOf(reservationID string) (string, error) {
	owner, err := o.Owner(reservationID)
	return owner.User, err
}

// Unlabelled implements provisioner.Past.
func (o *Owners) Unlabelled(id string) bool {
	rec, err := o.records.Record(id)
	return err == nil && rec.Unlabelled
}

// HasNetwork implements container.Owners.
func (o *Owners) HasNetwork(user, name string, hash workload.Hash) (container.Presence, error) {
	key := store.NetworkKey(workload.NetworkKey(user, name))
	if hash != (workload.Hash{}) {
		return o.networkOf(key, hash)
	}
	recs, err := o.records.Named(key)
	if err != nil {
		return container.Absent, err
	}
	out := container.Absent
	for _, rec := range recs {
		if here(rec) {
			out = max(out, presenceOf(rec))
		}
	}
	return out, nil
}

// here reports whether a record's workload is on the node, or is about to be.
func here(rec store.Record) bool { return rec.Phase.Wanted() || rec.Phase == store.Replaced }

// networkOf is HasNetwork of the reservation of that hash. One of another
// network, or of another user, is none.
func (o *Owners) networkOf(key store.NetworkKey, hash workload.Hash) (container.Presence, error) {
	rec, err := o.records.ByHash(hash)
	if node.KindOf(err) == node.NotExist {
		return container.Absent, nil
	}
	if err != nil {
		return container.Absent, err
	}
	if rec.Name != key {
		return container.Absent, nil
	}
	return presenceOf(rec), nil
}

// presenceOf is how far a network's record is. What was provisioned once was
// accepted, whatever has become of it.
func presenceOf(rec store.Record) container.Presence {
	switch {
	case !rec.Deployed.IsZero():
		return container.Accepted
	case here(rec):
		return container.Coming
	}
	return container.Absent
}

// nobodys knows nobody's workloads.
type nobodys struct{}

func (nobodys) Owner(id string) (container.Owner, error) {
	return container.Owner{}, node.Errorf(node.NotExist, "nobody knows whose reservation %s is", id)
}

func (nobodys) HasNetwork(string, string, workload.Hash) (container.Presence, error) {
	return container.Absent, nil
}

// contextOwners asks the OwnerCache of a context whose volumes are mounted.
type contextOwners struct {
	*Owners
	cache workload.OwnerCache
}

// Owner implements container.Owners. The cache tells the user alone. Type and
// hash are the node's own records'; what these don't have is taken for a volume
// without a hash, so that a container which names one by hash is refused.
func (o contextOwners) Owner(id string) (container.Owner, error) {
	user, err := o.cache.OwnerOf(id)
	if err != nil {
		return container.Owner{}, err
	}
	own, err := o.Owners.Owner(id)
	switch {
	case node.KindOf(err) == node.NotExist:
		own = container.Owner{Type: workload.TypeVolume}
	case err != nil:
		return container.Owner{}, err
	}
	own.User = user
	return own, nil
}

// OwnersFor is what an engine made by New asks: its context's OwnerCache if
// there is one, as in the published API, else its own records.
func OwnersFor(ctx context.Context, records store.Records) container.Owners {
	own := NewOwners(records)
	if cache := GetOwnerCache(ctx); cache != nil {
		return contextOwners{own, cache}
	}
	return own
}
