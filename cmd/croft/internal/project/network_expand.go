package project

import (
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/pkg/workload"
)

// publicKey is the placeholder in a tree for the public key of a secret.
type publicKey struct{ of *Secret }

// PartName is the name of a network's workload on a node. No name in the file
// holds an @.
func PartName(network, nodeID string) string { return network + "@" + nodeID }

// workloads are the network's, one a node: the same data goes to each.
func (n *Network) workloads() []*Workload {
	resources := make([]any, len(n.Nodes))
	places := map[string]place{"": n.places[""], "ip_range": n.places["ip_range"], "net_resources": n.places["nodes"]}
	names := map[string]string{"node": "node_id", "subnet": "subnet", "listen_port": "wg_listen_port", "private_key": "wg_private_key"}
	for i := range n.Nodes {
		resources[i] = n.resource(i)
		from, to := "nodes["+strconv.Itoa(i)+"]", "net_resources["+strconv.Itoa(i)+"]"
		places[to] = n.places[from]
		for file, wire := range names {
			places[join(to, wire)] = n.places[join(from, file)]
		}
	}
	out := make([]*Workload, len(n.Nodes))
	for i, node := range n.Nodes {
		out[i] = &Workload{
			Name: PartName(n.Name, node.ID), Type: workload.TypeNetwork, Node: node.ID, Duration: n.Duration, Network: n.Name,
			body: &body{
				data:    map[string]any{"name": n.Name, "ip_range": n.IPRange.String(), "net_resources": resources},
				secrets: n.keys, places: places,
			},
			origin: origin{line: n.line, field: networkField(n.Name)},
		}
	}
	return out
}

// resource is node i's part, as it is in the data.
func (n *Network) resource(i int) map[string]any {
	one := n.Nodes[i]
	peers := []any{}
	for _, p := range n.Peers(i) {
		peers = append(peers, map[string]any{
			"subnet": p.Subnet.String(), "wg_public_key": n.keyOf(p), "allowed_ips": texts(p.AllowedIPs), "endpoint": p.Endpoint,
		})
	}
	return map[string]any{
		"node_id": one.ID, "subnet": one.Subnet.String(), "wg_private_key": n.keys[i], "wg_public_key": publicKey{n.keys[i]},
		"wg_listen_port": json.Number(strconv.Itoa(int(one.Port))), "peers": peers,
	}
}

func (n *Network) keyOf(p mesh.Peer) any {
	if p.Access != nil {
		return p.Access.PublicKey
	}
	for i := range n.Nodes {
		if n.Nodes[i].ID == p.Node.ID {
			return publicKey{n.keys[i]}
		}
	}
	return ""
}

func texts(prefixes []netip.Prefix) []any {
	out := make([]any, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.String()
	}
	return out
}

// PublicKey is that of node i; open opens its private key.
func (n *Network) PublicKey(i int, open func(*Secret) (string, error)) (string, error) {
	return n.keys[i].public(open)
}

// public is the public key that belongs to the secret.
func (s *Secret) public(open func(*Secret) (string, error)) (string, error) {
	private, err := open(s)
	if err != nil {
		return "", err
	}
	key, err := mesh.PublicKey(private)
	if err != nil {
		return "", at(s.line, s.field, "%s %s", s, err)
	}
	return key, nil
}

// CheckKeys opens the keys of all networks, and checks that each is one and
// that nobody has another's.
func (f *File) CheckKeys(open func(*Secret) (string, error)) error {
	for _, n := range f.Networks {
		owner := map[string]string{}
		for i, a := range n.Access {
			owner[a.PublicKey] = "access[" + strconv.Itoa(i) + "]"
		}
		for i, s := range n.keys {
			key, err := s.public(open)
			if err != nil {
				return inFile(f.Path, err)
			}
			if other, twice := owner[key]; twice {
				return inFile(f.Path, at(s.line, s.field, "%s is the key of %s too; each needs one of its own", s, other))
			}
			owner[key] = "nodes[" + strconv.Itoa(i) + "]"
		}
	}
	return nil
}
