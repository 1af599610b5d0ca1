package provision

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

// OwnerOf implements OwnerCache: it returns the user of a reservation that is on
// this node, or is about to be. NotExist when there is none.
func (o *Owners) OwnerOf(reservationID string) (string, error) {
	rec, err := o.records.Record(reservationID)
	if err != nil {
		return "", err
	}
	if !lives(rec.Phase) {
		return "", node.Errorf(node.NotExist, "reservation %s is %s", reservationID, rec.Phase)
	}
	return rec.Reservation.User, nil
}

// HasNetwork reports whether a network of that user and name is on this node, or
// is about to be.
func (o *Owners) HasNetwork(user, name string) (bool, error) {
	recs, err := o.records.List()
	if err != nil {
		return false, err
	}
	for _, rec := range recs {
		if key, named := store.KeyOf(rec.Reservation); named && lives(rec.Phase) && key == store.NetworkKey(workload.NetworkKey(user, name)) {
			return true, nil
		}
	}
	return false, nil
}

// nobodys knows nobody's workloads.
type nobodys struct{}

func (nobodys) OwnerOf(id string) (string, error) {
	return "", node.Errorf(node.NotExist, "nobody knows whose reservation %s is", id)
}

func (nobodys) HasNetwork(string, string) (bool, error) { return false, nil }

// contextOwners asks the OwnerCache of a context whose volumes are mounted.
type contextOwners struct {
	*Owners
	cache OwnerCache
}

// OwnerOf implements OwnerCache.
func (o contextOwners) OwnerOf(id string) (string, error) { return o.cache.OwnerOf(id) }

// ownersFor is what an engine made by New asks: its context's OwnerCache if
// there is one, as in the published API, else its own records.
func ownersFor(ctx context.Context, records store.Records) container.Owners {
	own := NewOwners(records)
	if cache := GetOwnerCache(ctx); cache != nil {
		return contextOwners{own, cache}
	}
	return own
}
