package verify

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Authentic checks that r's user signed it, for this node. On an error there is no known
// user to answer.
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

// Deletion checks that r's deletion is its user's.
func (p Policy) Deletion(r *workload.Reservation) error {
	return node.WithKind(node.Invalid, workload.VerifyDeletion(r))
}
