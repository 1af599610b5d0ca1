package provisioner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Label is what something on the node says of whose it is. An ID is the explorer's
// to give, and may be on several things: only with the hash is it one reservation's.
type Label struct {
	ID string
	// Hash is that of the reservation, the zero one when what is there has none or
	// it isn't known.
	Hash workload.Hash
}

// LabelOf is the label of what a module has under an ID with that hash.
func LabelOf(id, hash string) Label { return Label{ID: id, Hash: HashOf(hash)} }

// Claim is to exactly what has the label: nothing is adopted by it.
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

// IDs are those of what was seen, each once, sorted.
func IDs(seen map[Label]Seen) []string {
	ids := make([]string, 0, len(seen))
	for l := range maps.Keys(seen) {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
