package fakenode

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Networks is the network module's networks and their members; no packet flows. It
// implements node.Networks; Taps its other contract.
type Networks struct {
	calls *Calls
	mu    sync.Mutex
	have  map[string]*network
	// places are the network namespaces of the node.
	places *places
	// public is the range of public addresses, invalid for none.
	public netip.Prefix
}

var _ node.Networks = (*Networks)(nil)

// network is a network with its members, in the order in which they joined.
type network struct {
	spec    node.NetworkSpec
	drift   string
	subnet  netip.Prefix
	gateway netip.Addr
	members []member
}

// NewNetworks has no networks. members are in the namespaces of places.
func NewNetworks(calls *Calls) *Networks {
	return &Networks{calls: calls, have: map[string]*network{}, places: newPlaces()}
}

// Create implements node.Networks.
func (n *Networks) Create(spec node.NetworkSpec) (node.NetworkInfo, error) {
	return answer(n.calls, "Networks.Create", spec.ID, func() (node.NetworkInfo, error) {
		if err := checkNetwork(spec); err != nil {
			return node.NetworkInfo{}, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for id, other := range n.have {
			if id != spec.ID && other.spec.ListenPort == spec.ListenPort {
				return node.NetworkInfo{}, node.Errorf(node.Refused, "cannot make network %q: wg_listen_port is %d, must be one that no other network has", spec.Name, spec.ListenPort)
			}
		}
		one := &network{spec: spec, subnet: netip.MustParsePrefix(spec.Subnet)}
		one.gateway = one.subnet.Addr().Next()
		if before := n.have[spec.ID]; before != nil {
			one.members = before.members
		}
		for _, m := range one.members {
			for _, ip := range m.ips {
				if !one.usable(ip) {
					return node.NetworkInfo{}, node.Errorf(node.Refused, "cannot make network %q: Subnet is %s, must have %s of member %s", spec.Name, spec.Subnet, ip, m.spec.Member)
				}
			}
		}
		n.have[spec.ID] = one
		return n.info(one), nil
	})
}

// Delete implements node.Networks.
func (n *Networks) Delete(id string) error {
	return carryOut(n.calls, "Networks.Delete", id, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		one, err := n.find("delete network", id)
		if err != nil {
			return err
		}
		if len(one.members) > 0 {
			return node.Errorf(node.Busy, "cannot delete network %q: %s is a member", one.spec.Name, one.members[0].spec.Member)
		}
		delete(n.have, id)
		return nil
	})
}

// List implements node.Networks.
func (n *Networks) List() ([]node.NetworkInfo, error) {
	return answer(n.calls, "Networks.List", "", func() ([]node.NetworkInfo, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		out := []node.NetworkInfo{}
		for _, id := range sorted(n.have) {
			out = append(out, n.info(n.have[id]))
		}
		return out, nil
	})
}

// NetworkInspector is the module's other contract, node.NetworkInspector.
type NetworkInspector struct{ *Networks }

var _ node.NetworkInspector = NetworkInspector{}

// Inspect implements node.NetworkInspector.
func (i NetworkInspector) Inspect(labels []string) ([]node.NetworkInfo, error) {
	return answer(i.calls, "Networks.Inspect", "", func() ([]node.NetworkInfo, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		out := []node.NetworkInfo{}
		for _, id := range sorted(i.have) {
			if slices.Contains(labels, i.have[id].spec.Label) {
				out = append(out, i.info(i.have[id]))
			}
		}
		return out, nil
	})
}

// Subnet implements node.Networks.
func (n *Networks) Subnet(id string) (string, error) {
	return n.ask("Networks.Subnet", id, func(one *network) string { return one.spec.Subnet })
}

// Gateway implements node.Networks.
func (n *Networks) Gateway(id string) (string, error) {
	return n.ask("Networks.Gateway", id, func(one *network) string { return one.gateway.String() })
}

func (n *Networks) ask(method, id string, get func(one *network) string) (string, error) {
	return answer(n.calls, method, id, func() (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		one, err := n.find("find network", id)
		if err != nil {
			return "", err
		}
		return get(one), nil
	})
}

// Status implements node.Networks.
func (n *Networks) Status() (node.NetworkStatus, error) {
	return answer(n.calls, "Networks.Status", "", func() (node.NetworkStatus, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		out := node.NetworkStatus{Backend: "kernel", Networks: uint64(len(n.have))}
		for _, one := range n.have {
			out.Members += uint64(len(one.members))
		}
		if n.public.IsValid() {
			out.PublicRange = n.public.String()
		}
		return out, nil
	})
}

// find returns a network. The caller holds mu.
func (n *Networks) find(what, id string) (*network, error) {
	if one, ok := n.have[id]; ok {
		return one, nil
	}
	return nil, node.Errorf(node.NotExist, "cannot %s %.80q: there is none", what, id)
}

func (n *Networks) info(one *network) node.NetworkInfo {
	s := one.spec
	out := node.NetworkInfo{
		ID: s.ID, Label: s.Label, Hash: s.Hash, User: s.User, Name: s.Name, IPRange: s.IPRange, Subnet: s.Subnet,
		Backend: "kernel", ListenPort: s.ListenPort, Namespace: "/run/networks/" + s.ID,
		Members: []node.Member{}, Peers: []node.NetworkPeer{}, Drift: one.drift,
	}
	if one.subnet.IsValid() {
		out.Gateway, out.Gateway6 = one.gateway.String(), one.address6(one.gateway)
	}
	for _, m := range one.members {
		out.Members = append(out.Members, n.member(one, m))
	}
	for _, p := range s.Peers {
		out.Peers = append(out.Peers, node.NetworkPeer{PublicKey: p.PublicKey})
	}
	return out
}

// usable reports whether a member may have ip.
func (n *network) usable(ip netip.Addr) bool {
	return n.subnet.Contains(ip) && ip != n.subnet.Addr() && ip != n.gateway && n.subnet.Contains(ip.Next())
}

func (n *network) address6(ip netip.Addr) string {
	return workload.Address6(workload.NetworkPrefix6(n.spec.User, n.spec.Name), n.subnet, ip).String()
}

// Put adds networks, or replaces those of the same IDs, without any check: a spec
// needs an ID only.
func (n *Networks) Put(specs ...node.NetworkSpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, spec := range specs {
		one := &network{spec: spec}
		if subnet, err := netip.ParsePrefix(spec.Subnet); err == nil {
			one.subnet, one.gateway = subnet, subnet.Addr().Next()
		}
		if before := n.have[spec.ID]; before != nil {
			one.members = before.members
		}
		n.have[spec.ID] = one
	}
}

// Specs are the specs of all networks, by ID.
func (n *Networks) Specs() map[string]node.NetworkSpec {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]node.NetworkSpec{}
	for id, one := range n.have {
		out[id] = one.spec
	}
	return out
}

// SetDrift makes a network differ from how it was made, until Create repairs it.
func (n *Networks) SetDrift(id, drift string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one := n.have[id]; one != nil {
		one.drift = drift
	}
}

// SetPublic gives the node a range of public addresses.
func (n *Networks) SetPublic(within netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.public = within
}

// Members are the specs of all members of all networks, by their IDs.
func (n *Networks) Members() map[string]node.MemberSpec {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]node.MemberSpec{}
	for _, one := range n.have {
		for _, m := range one.members {
			out[m.spec.Member] = m.spec
		}
	}
	return out
}

// PutMember adds a member to an existing network, or replaces the one of that ID,
// without any check.
func (n *Networks) PutMember(spec node.MemberSpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.have[spec.Network]
	m := member{spec: spec}
	for _, text := range spec.IPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			m.ips = append(m.ips, ip)
		}
	}
	if i := one.index(spec.Member); i >= 0 {
		one.members[i] = m
		return
	}
	one.members = append(one.members, m)
}

// Process makes a process with a network namespace of its own, and returns its ID.
func (n *Networks) Process() uint64 { return n.places.process() }

// Pin makes a file that keeps a namespace, see conformance.NetworksSubject.
func (n *Networks) Pin(source string) string {
	path := n.places.next("/run/pinned/")
	switch {
	case source == "":
		n.places.keep(path, networkPlace)
	case strings.HasSuffix(source, "/net"):
		n.places.keep(path, nodePlace)
	default:
		n.places.keep(path, otherPlace)
	}
	return path
}

// Unpin removes the file of Pin, and its namespace.
func (n *Networks) Unpin(path string) { n.places.forget(path) }
