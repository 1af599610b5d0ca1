package provisioner

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Past tells of the node's own records what an older croft has made.
type Past interface {
	// Unlabelled reports whether the reservation of that ID was deployed by a
	// croft that wrote no hashes: then what has its ID and no hash is its.
	Unlabelled(id string) bool
}

// Claim is by what right a reservation asks for what is on the node under its ID.
type Claim struct {
	node.Claim
	// orphan is whether it is of a label and not of a reservation.
	orphan bool
}

// ClaimOf is r's claim. Without a past nothing that has no hash is r's.
func ClaimOf(r *workload.Reservation, past Past) (Claim, error) {
	h, err := r.Hash()
	if err != nil {
		return Claim{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot tell what is of reservation %s", r.ID))
	}
	return Claim{Claim: node.Claim{Hash: h.Hex(), AdoptUnlabelled: past != nil && past.Unlabelled(r.ID)}}, nil
}

// Takes reports whether what carries the hash have is the reservation's to take
// down. What isn't, is as if it weren't there.
func (c Claim) Takes(have string) bool {
	if c.orphan {
		return HashOf(have) == HashOf(c.Hash)
	}
	return c.Adopts(have)
}

// HashOf is the hash that a label says, the zero one when it says none.
func HashOf(label string) workload.Hash {
	h, err := workload.ParseHash(label)
	if err != nil {
		return workload.Hash{}
	}
	return h
}
