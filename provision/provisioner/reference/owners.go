package reference

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Owner is a reservation's owner by the node's own records.
type Owner struct {
	User string
	Type workload.Type
	// Hash is the hash that its user signed.
	Hash workload.Hash
}

// Presence is the state of a network on this node.
type Presence int

// The presences.
const (
	// Absent: there is none, and none is pending.
	Absent Presence = iota
	// Coming: it is reserved but not provisioned yet.
	Coming
	// Accepted: it was provisioned.
	Accepted
)

// Owners looks up the workloads' owners in the node's own records.
type Owners interface {
	// Owner returns the owner of a reservation that is on this node or pending.
	// NotExist when there is none.
	Owner(reservationID string) (Owner, error)
	Networks
}

// Networks looks up users' networks in the node's own records.
type Networks interface {
	// HasNetwork returns the presence of a user's network of that name. With a
	// nonzero hash it is that of the network's reservation of that hash: once
	// provisioned, a reservation stays Accepted after the network was updated or
	// deleted, for as long as the node remembers it.
	HasNetwork(user, name string, hash workload.Hash) (Presence, error)
}

// Hash parses the hash of a reference: zero for none, Invalid for a text that is no hash.
func Hash(text string) (workload.Hash, error) {
	if text == "" {
		return workload.Hash{}, nil
	}
	h, err := workload.ParseHash(text)
	return h, node.WithKind(node.Invalid, err)
}
