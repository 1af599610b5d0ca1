package provisioner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Label names the owner of an object on the node. Explorers give IDs, so several
// objects may have one ID: only ID and hash together identify a reservation.
type Label struct {
	ID string
	// Hash is the reservation's; zero when the object has none or it is unknown.
	Hash workload.Hash
}

// LabelOf is the label of a module's object with that ID and hash.
func LabelOf(id, hash string) Label { return Label{ID: id, Hash: HashOf(hash)} }

// Claim is a claim to exactly the objects with the label: it adopts no others.
func (l Label) Claim() Claim {
	c := Claim{orphan: true}
	if l.Hash != (workload.Hash{}) {
		c.Claim = node.Claim{Hash: l.Hash.Hex()}
	}
	return c
}

// Compare orders labels by ID, then by hash.
func (l Label) Compare(other Label) int {
	return cmp.Or(cmp.Compare(l.ID, other.ID), slices.Compare(l.Hash[:], other.Hash[:]))
}

// IDs returns the IDs of the labels seen, each once, sorted.
func IDs(seen map[Label]Seen) []string {
	ids := make([]string, 0, len(seen))
	for l := range maps.Keys(seen) {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
