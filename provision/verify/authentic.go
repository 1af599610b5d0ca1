package verify

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Authentic says whether r's user asked this node for it, in words that can be
// checked. An error means that nobody can be answered.
func (p Policy) Authentic(r *workload.Reservation) error {
	if _, err := workload.ParseID(r.ID); err != nil {
		return node.WithKind(node.Invalid, err)
	}
	if err := workload.Verify(r); err != nil {
		return node.WithKind(node.Invalid, err)
	}
	if r.NodeID != p.NodeID {
		return node.Errorf(node.Refused, "cannot accept node_id: it is %q, must be %q, which is this node", r.NodeID, p.NodeID)
	}
	return nil
}

// Deletion says whether r's deletion is its user's.
func (p Policy) Deletion(r *workload.Reservation) error {
	return node.WithKind(node.Invalid, workload.VerifyDeletion(r))
}
