package resource

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// The names of the links in a network's namespace.
const (
	Bridge = "br0"
	Uplink = "up0"
	Tunnel = "wg0"
)

// Sizes of packets in bytes: a tunnel adds up to 80.
const (
	LinkMTU   = 1500
	tunnelMTU = 1420
)

// State is the part of a network resource that is on disk for as long as the
// machine is up. The private key is not in it: the engine brings it when needed.
type State struct {
	Spec node.NetworkSpec `json:"spec"`
	// Index gives the names and addresses of its uplink.
	Index int `json:"index"`
	// Endpoints are the addresses of the peers' endpoints.
	Endpoints Endpoints `json:"endpoints,omitempty"`
	// Members are the network's members on this node, by ID.
	Members map[string]*Member `json:"members"`
	// Rules are the firewall rules of its namespace.
	Rules firewall.Applied `json:"rules"`
}

// Endpoints are the addresses that peers' endpoints have resolved to, by public key.
type Endpoints = map[string]netip.AddrPort

// Network is a network resource that is on the node.
type Network struct {
	State
	Plan Plan
	// Namespace is the file that keeps its network namespace.
	Namespace string
	// Moved is whether a peer's name leads elsewhere than the tunnel.
	Moved bool
}

// Restore is the network of a State that was on disk.
func Restore(s State, namespace string) (*Network, error) {
	if s.Members == nil {
		s.Members = map[string]*Member{}
	}
	plan, err := readStored(s.Spec)
	return &Network{State: s, Plan: plan, Namespace: namespace}, err
}

// Renew is the network with a new plan: its members and its uplink stay. endpoints
// are the plan's that are written as addresses; isName says which are names.
func (n *Network) Renew(p Plan, endpoints Endpoints, isName func(endpoint string) bool) *Network {
	out := &Network{State: n.State, Plan: p, Namespace: n.Namespace}
	for _, one := range p.Peers {
		// An endpoint with a name keeps its last address, until it is looked up.
		key := one.Key.String()
		if at, known := n.Endpoints[key]; known && !endpoints[key].IsValid() && isName(one.Endpoint) {
			endpoints[key] = at
		}
	}
	out.Endpoints = endpoints
	out.Spec = p.Spec
	out.Spec.PrivateKey = ""
	return out
}

// ID is the network's key.
func (n *Network) ID() string { return n.Plan.Spec.ID }

// HasKey reports whether the module knows the private key: after its own restart it
// doesn't, and needs it only where the tunnel has to be made again.
func (n *Network) HasKey() bool { return !n.Plan.Key.IsZero() }

// Sorted are the members by port.
func (n *Network) Sorted() []*Member {
	out := make([]*Member, 0, len(n.Members))
	for _, m := range n.Members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *Member) int { return a.Index - b.Index })
	return out
}

// Address6 is a member's IPv6 address; it follows from its first IPv4 address.
func (n *Network) Address6(m *Member) netip.Addr {
	return workload.Address6(n.Plan.Prefix6, n.Plan.Subnet, m.IPs[0])
}

// MAC is a member's hardware address.
func (n *Network) MAC(m *Member) net.HardwareAddr {
	// It follows from the first address, which one member has at a time: neighbours
	// know the next one that has it already.
	if len(m.IPs) > 0 {
		return MACOf(n.ID() + "/" + m.IPs[0].String())
	}
	return MACOf(n.ID() + "/" + m.ID)
}

// MACOf makes a locally administered hardware address of a name.
func MACOf(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(name))
	return net.HardwareAddr{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}
}

// Firewall is the desired rules of its namespace.
func (n *Network) Firewall() firewall.Network {
	ports := make([]firewall.Port, 0, len(n.Members))
	for _, m := range n.Sorted() {
		ports = append(ports, firewall.Port{Name: m.Port(), MAC: n.MAC(m), IPs: slices.Concat(m.IPs, []netip.Addr{n.Address6(m)})})
	}
	return firewall.Network{
		Bridge: Bridge, Uplink: Uplink, Tunnel: Tunnel, Ports: ports,
		Subnets: []netip.Prefix{n.Plan.Subnet, workload.Counterpart6(n.Plan.Prefix6, n.Plan.IPRange, n.Plan.Subnet)},
	}
}

// Device is the desired state of its tunnel.
func (n *Network) Device() wireguard.Config {
	c := wireguard.Config{
		Name: Tunnel, Namespace: n.Namespace, PrivateKey: n.Plan.Key, ListenPort: n.Plan.Spec.ListenPort, MTU: tunnelMTU,
	}
	for _, p := range n.Plan.Peers {
		c.Peers = append(c.Peers, wireguard.Peer{PublicKey: p.Key, Endpoint: n.Endpoints[p.Key.String()], AllowedIPs: p.Allowed})
	}
	return c
}

// Zone is the names that its DNS answers.
func (n *Network) Zone() carrier.Zone {
	names := map[string][]netip.Addr{}
	for _, one := range n.Sorted() {
		if one.Name != "" {
			names[one.Name] = append(names[one.Name], append(append([]netip.Addr{}, one.IPs...), n.Address6(one))...)
		}
	}
	return carrier.Zone{ID: n.ID(), Namespace: n.Namespace, Network: n.Plan.Spec.Name, Names: names}
}

// Intake is the name of the link through which a tap's frames enter the bridge.
func (m *Member) Intake() string { return "i" + strconv.Itoa(m.Index) }

// Port is the name of the member's link in the network's namespace.
func (m *Member) Port() string {
	if m.Tap {
		return "t" + strconv.Itoa(m.Index)
	}
	return "m" + strconv.Itoa(m.Index)
}
