package provisioner

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Past tells from the node's own records which workloads an older croft has made.
type Past interface {
	// Unlabelled reports whether a croft that wrote no hashes deployed the
	// reservation of that ID: then it owns the objects with its ID and no hash.
	Unlabelled(id string) bool
}

// Claim is a reservation's right to the objects on the node under its ID.
type Claim struct {
	node.Claim
	// orphan marks the claim of a label rather than of a reservation.
	orphan bool
}

// ClaimOf is r's claim. With a nil past it covers no object without a hash.
func ClaimOf(r *workload.Reservation, past Past) (Claim, error) {
	h, err := r.Hash()
	if err != nil {
		return Claim{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot make the claim of reservation %s", r.ID))
	}
	return Claim{Claim: node.Claim{Hash: h.Hex(), AdoptUnlabelled: past != nil && past.Unlabelled(r.ID)}}, nil
}

// Takes reports whether the claim's owner may take down an object with the hash
// have. Other objects count as absent.
func (c Claim) Takes(have string) bool {
	if c.orphan {
		return HashOf(have) == HashOf(c.Hash)
	}
	return c.Adopts(have)
}

// HashOf parses a label's hash; zero when it has no valid one.
func HashOf(label string) workload.Hash {
	h, err := workload.ParseHash(label)
	if err != nil {
		return workload.Hash{}
	}
	return h
}
