package seed

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/reference"
	"github.com/croft-edge/croft/provision/store"
)

// Owners tells from the node's own records whose workloads are here: only workloads of one
// user may be used together.
type Owners struct {
	records store.Records
}

// NewOwners makes Owners of those records.
func NewOwners(records store.Records) *Owners { return &Owners{records: records} }

// Owner implements reference.Owners: it returns the owner of a reservation that is on this
// node, or is about to be. NotExist when there is none.
func (o *Owners) Owner(reservationID string) (reference.Owner, error) {
	rec, err := o.records.Record(reservationID)
	if err != nil {
		return reference.Owner{}, err
	}
	if !here(rec) {
		return reference.Owner{}, node.Errorf(node.NotExist, "reservation %s is %s", reservationID, rec.Phase)
	}
	return reference.Owner{User: rec.Reservation.User, Type: rec.Reservation.Type, Hash: rec.Hash}, nil
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

// WasDeployed reports whether the workload of that ID was ever deployed, as far as the node
// remembers.
func (o *Owners) WasDeployed(id string) (bool, error) {
	rec, err := o.records.Record(id)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil && !rec.Deployed.IsZero(), err
}

// HasNetwork implements reference.Owners.
func (o *Owners) HasNetwork(user, name string, hash workload.Hash) (reference.Presence, error) {
	key := store.NetworkKey(workload.NetworkKey(user, name))
	if hash != (workload.Hash{}) {
		return o.networkOf(key, hash)
	}
	recs, err := o.records.Named(key)
	if err != nil {
		return reference.Absent, err
	}
	out := reference.Absent
	for _, rec := range recs {
		if here(rec) {
			out = max(out, presenceOf(rec))
		}
	}
	return out, nil
}

// here reports whether a record's workload is on the node, or is about to be.
func here(rec store.Record) bool { return rec.Phase.Wanted() || rec.Phase == store.Replaced }

// networkOf is HasNetwork for the reservation of that hash; Absent when that is of another
// network or user.
func (o *Owners) networkOf(key store.NetworkKey, hash workload.Hash) (reference.Presence, error) {
	rec, err := o.records.ByHash(hash)
	if node.KindOf(err) == node.NotExist {
		return reference.Absent, nil
	}
	if err != nil {
		return reference.Absent, err
	}
	if rec.Name != key {
		return reference.Absent, nil
	}
	return presenceOf(rec), nil
}

// presenceOf is the presence of a network's record. Once provisioned it counts as accepted,
// whatever its phase is now.
func presenceOf(rec store.Record) reference.Presence {
	switch {
	case !rec.Deployed.IsZero():
		return reference.Accepted
	case here(rec):
		return reference.Coming
	}
	return reference.Absent
}

// nobodys is Owners without any workload.
type nobodys struct{}

func (nobodys) Owner(id string) (reference.Owner, error) {
	return reference.Owner{}, node.Errorf(node.NotExist, "the owner of reservation %s isn't known", id)
}

func (nobodys) WasDeployed(string) (bool, error) { return false, nil }

func (nobodys) HasNetwork(string, string, workload.Hash) (reference.Presence, error) {
	return reference.Absent, nil
}

// contextOwners asks a context's OwnerCache for the users of reservations.
type contextOwners struct {
	*Owners
	cache workload.OwnerCache
}

// Owner implements reference.Owners. The cache tells only the user; type and hash come from
// the node's own records. A reservation without a record is taken for a volume without a
// hash, so that a container which names it by hash is refused.
func (o contextOwners) Owner(id string) (reference.Owner, error) {
	user, err := o.cache.OwnerOf(id)
	if err != nil {
		return reference.Owner{}, err
	}
	own, err := o.Owners.Owner(id)
	switch {
	case node.KindOf(err) == node.NotExist:
		own = reference.Owner{Type: workload.TypeVolume}
	case err != nil:
		return reference.Owner{}, err
	}
	own.User = user
	return own, nil
}

// OwnersFor returns the Owners of an engine made by New: its context's OwnerCache if there
// is one, as in the published API, else its own records.
func OwnersFor(ctx context.Context, records store.Records) OwnerRecords {
	own := NewOwners(records)
	if cache := GetOwnerCache(ctx); cache != nil {
		return contextOwners{own, cache}
	}
	return own
}
