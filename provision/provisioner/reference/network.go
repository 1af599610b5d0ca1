package reference

import (
	"context"
	"encoding/hex"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Network is a reference to a network of the user's.
type Network struct {
	User string
	Name string
	// Hash is that of one of the network's reservations; zero when the name alone counts.
	Hash workload.Hash
	// Field is the object in the reservation that has network_id and network_hash, such as "data".
	Field string
}

// Key is the network module's key for the network.
func (n Network) Key() string {
	k := workload.NetworkKey(n.User, n.Name)
	return hex.EncodeToString(k[:])
}

// Unknown reports whether the records have no such network, or no reservation of it with the named hash.
func (n Network) Unknown(records Networks) (bool, error) {
	presence, err := records.HasNetwork(n.User, n.Name, workload.Hash{})
	if err == nil && presence != Absent && n.Hash != (workload.Hash{}) {
		presence, err = records.HasNetwork(n.User, n.Name, n.Hash)
	}
	return err == nil && presence == Absent, err
}

// Gateways is the part of the network module that finds a network.
type Gateways interface {
	Gateway(ctx context.Context, id string) (string, error)
}

// Gateway returns the address of the network's gateway. Transient while the network is
// only reserved, Refused when there is none, and for a hash of a reservation that was never accepted as that network.
// A workload that is on the node already (begun) was checked when it was made: the node may have forgotten
// that reservation since.
func (n Network) Gateway(ctx context.Context, networks Gateways, records Networks, begun func(ctx context.Context) (bool, error)) (string, error) {
	gateway, err := networks.Gateway(ctx, n.Key())
	if node.KindOf(err) == node.NotExist {
		return "", n.absent(records)
	}
	if err == nil {
		err = n.byHash(ctx, records, begun)
	}
	return gateway, err
}

// absent returns the error for a missing network: Transient if one is reserved, else Refused.
func (n Network) absent(records Networks) error {
	presence, err := records.HasNetwork(n.User, n.Name, workload.Hash{})
	if err != nil {
		return err
	}
	if presence != Absent {
		return node.Errorf(node.Transient, "network %q isn't there yet", n.Name)
	}
	return node.Errorf(node.Refused, "%s.network_id is %q, must be the name of a network of yours on this node", n.Field, n.Name)
}

func (n Network) byHash(ctx context.Context, records Networks, begun func(ctx context.Context) (bool, error)) error {
	if n.Hash == (workload.Hash{}) {
		return nil
	}
	presence, err := records.HasNetwork(n.User, n.Name, n.Hash)
	if err != nil || presence == Accepted {
		return err
	}
	if presence == Coming {
		return node.Errorf(node.Transient, "network %q doesn't match reservation %s yet", n.Name, n.Hash.Hex())
	}
	there, err := begun(ctx)
	if err != nil || there {
		return err
	}
	return node.Errorf(node.Refused, "%s.network_hash is %s, must be the hash of a reservation of your network %q that this node has accepted, or be left out",
		n.Field, n.Hash.Hex(), n.Name)
}
