package resource

import (
	"net/netip"

	"github.com/croft-edge/croft/pkg/node"
)

// Member is a member's place in a network.
type Member struct {
	ID string `json:"id"`
	// Hash says whose it is, see node.Claim; those of an older croft have none.
	Hash string       `json:"hash,omitempty"`
	Name string       `json:"name"`
	IPs  []netip.Addr `json:"ips"`
	// Index gives the name of its port.
	Index int `json:"index"`
	// Tap is whether it is a VM's: then it has no namespace.
	Tap bool `json:"tap"`
	// Namespace is the file that keeps the namespace that it uses, empty when
	// that is of the process PID; Inode identifies it.
	Namespace string `json:"namespace,omitempty"`
	PID       uint64 `json:"pid"`
	Inode     uint64 `json:"inode"`
	// Public is its routable address, PublicIndex gives the name of its link.
	Public      netip.Addr `json:"public"`
	PublicIndex int        `json:"public_index"`
}

// JoinRequest asks for a place in a network; it was read and checked.
type JoinRequest struct {
	Network string
	ID      string
	Name    string
	IPs     []netip.Addr
	// Public is whether it asks for a public IPv6 address.
	Public bool
	Tap    bool
	// Namespace or PID says where the member is, Inode which namespace that is.
	Namespace string
	PID       uint64
	Inode     uint64
	// Claim is whose it is.
	Claim node.Claim
}

// Refusal is the error of a request with a field that can't be accepted.
func (r JoinRequest) Refusal(kind node.Kind, field string, value any, allowed string) error {
	return node.Errorf(kind, "cannot join member %s: %s is %q, must be %s", Bounded(r.ID), field, Bounded(value), allowed)
}

// Place chooses the member's addresses and port, and its public address with
// public, if it asks for one. A member that has a place keeps its port, and the addresses that it doesn't ask to change.
func (n *Network) Place(r JoinRequest, public func(member string) (netip.Addr, int, error)) (*Member, error) {
	before := n.Members[r.ID]
	one := &Member{ID: r.ID, Hash: r.Claim.Hash, Name: r.Name, Tap: r.Tap, Namespace: r.Namespace, PID: r.PID, Inode: r.Inode}
	taken, ports := map[netip.Addr]string{}, map[int]bool{}
	for _, other := range n.Members {
		if other.ID == r.ID {
			continue
		}
		ports[other.Index] = true
		for _, ip := range other.IPs {
			taken[ip] = other.ID
		}
	}
	if before != nil {
		one.Index = before.Index
	}
	for before == nil && ports[one.Index] {
		one.Index++
	}
	ips, err := n.chooseIPs(r, before, taken)
	if err != nil {
		return nil, err
	}
	one.IPs = ips
	switch {
	case !r.Public:
	case before != nil && before.Public.IsValid():
		one.Public, one.PublicIndex = before.Public, before.PublicIndex
	default:
		one.Public, one.PublicIndex, err = public(r.ID)
	}
	return one, err
}

// chooseIPs are the addresses that r asks for, those that the member has, or a free one.
func (n *Network) chooseIPs(r JoinRequest, before *Member, taken map[netip.Addr]string) ([]netip.Addr, error) {
	for _, ip := range r.IPs {
		switch {
		case ip == n.Plan.Gateway:
			return nil, r.Refusal(node.Refused, "an IP", ip, "another than the gateway's")
		case !n.Plan.Usable(ip):
			return nil, r.Refusal(node.Refused, "an IP", ip, "one of "+n.Plan.Subnet.String()+" but its first and last")
		case taken[ip] != "":
			return nil, r.Refusal(node.Refused, "an IP", ip, "one that no other member has")
		}
	}
	if len(r.IPs) > 0 {
		return r.IPs, nil
	}
	if before != nil {
		return before.IPs, nil
	}
	for ip := n.Plan.Gateway.Next(); n.Plan.Usable(ip); ip = ip.Next() {
		if taken[ip] == "" {
			return []netip.Addr{ip}, nil
		}
	}
	return nil, node.Errorf(node.NoSpace, "cannot join member %s: every address of %s is taken", r.ID, n.Plan.Subnet)
}
