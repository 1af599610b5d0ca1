package project

import (
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/croft-edge/croft/pkg/workload"
)

// FindNetwork returns the network of that name, nil when there is none.
func (f *File) FindNetwork(name string) *Network {
	for _, n := range f.Networks {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Parts are the names of the workloads of a network, one a node; of another name, that
// name.
func (f *File) Parts(name string) []string {
	n := f.FindNetwork(name)
	if n == nil {
		return []string{name}
	}
	out := make([]string, len(n.Nodes))
	for i, one := range n.Nodes {
		out[i] = PartName(name, one.ID)
	}
	return out
}

// Ranges are those of all networks of the file, written out by hand or not.
func (f *File) Ranges() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range f.Networks {
		out = append(out, n.IPRange)
	}
	for _, w := range f.Workloads {
		text, _ := w.body.data["ip_range"].(string)
		if p, err := netip.ParsePrefix(text); err == nil && w.Type == workload.TypeNetwork {
			out = append(out, p)
		}
	}
	return out
}

// Ports are those that networks of the file have on a node, with their names.
func (f *File) Ports(nodeID string) map[uint16]string {
	out := map[uint16]string{}
	for _, w := range f.Workloads {
		if w.Type == workload.TypeNetwork {
			w.body.ports(nodeID, func(port uint16) { out[port] = w.Network })
		}
	}
	return out
}

// ports calls tell with the listen ports in a network's data for a node.
func (b *body) ports(nodeID string, tell func(port uint16)) {
	resources, _ := b.data["net_resources"].([]any)
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		number, _ := resource["wg_listen_port"].(json.Number)
		port, err := strconv.ParseUint(number.String(), 10, 16)
		if err == nil && resource["node_id"] == nodeID {
			tell(uint16(port))
		}
	}
}

// apart checks that networks conflict neither with each other nor with workloads, which
// are parsed and don't include the networks' parts yet.
func apart(networks []*Network, workloads []*Workload) error {
	byHand := &File{Workloads: workloads}
	taken := map[string]map[uint16]string{}
	for _, n := range networks {
		for _, w := range workloads {
			if w.Name == n.Name {
				return at(n.line, networkField(n.Name), "a workload has the same name; each needs one of its own")
			}
			if w.Type == workload.TypeNetwork && w.Network == n.Name {
				return at(n.line, networkField(n.Name), "the workload %q is a network of that name too; each needs one of its own", w.Name)
			}
		}
		for i, one := range n.Nodes {
			if taken[one.ID] == nil {
				taken[one.ID] = byHand.Ports(one.ID)
			}
			if other, twice := taken[one.ID][one.Port]; twice {
				p := n.places["nodes["+strconv.Itoa(i)+"].listen_port"]
				return at(p.line, p.field, "is %d, which network %q has on node %s; each needs one of its own", one.Port, other, one.ID)
			}
			taken[one.ID][one.Port] = n.Name
		}
	}
	return nil
}
