package workload

import (
	"net/netip"

	"github.com/croft-edge/croft/pkg/fielderror"
)

// networkBits is the size of a network's range; narrowest is the smallest subnet's,
// which holds a gateway and a member at least.
const (
	networkBits = 16
	narrowest   = 30
)

func validateNetwork(r *Reservation, n *Network) error {
	if n.NetID != "" && n.NetID != NetworkID(r.User, n.Name) {
		return fielderror.New("data.net_id", string(n.NetID), "empty, or %s", NetworkID(r.User, n.Name))
	}
	whole, err := validatePrefix("data.ip_range", n.IPRange)
	if err != nil {
		return err
	}
	if !whole.Addr().Is4() || !whole.Addr().IsPrivate() || whole.Bits() != networkBits {
		return fielderror.New("data.ip_range", n.IPRange, "a private IPv4 range of /%d, such as 10.1.0.0/%d", networkBits, networkBits)
	}
	c := networkCheck{whole: whole, whole6: NetworkPrefix6(r.User, n.Name), keys: map[string]bool{}}
	here := false
	for i := range n.Resources {
		if err := c.resource(fielderror.Index("data.net_resources", i), &n.Resources[i]); err != nil {
			return err
		}
		here = here || n.Resources[i].NodeID == r.NodeID
	}
	if !here {
		return fielderror.New("data.net_resources", fielderror.Words("without one of "+r.NodeID), "a list that has a resource of the node_id of the document")
	}
	return nil
}

// networkCheck records the nodes, subnets and keys of the resources so far.
type networkCheck struct {
	// whole is the range of the network, whole6 its IPv6 range.
	whole   netip.Prefix
	whole6  netip.Prefix
	nodes   []string
	subnets []netip.Prefix
	keys    map[string]bool
}

func (c *networkCheck) resource(at string, res *NetworkResource) error {
	if err := validateKey(fielderror.Join(at, "node_id"), res.NodeID); err != nil {
		return err
	}
	for _, id := range c.nodes {
		if id == res.NodeID {
			return fielderror.New(fielderror.Join(at, "node_id"), res.NodeID, "another node than the other resources have")
		}
	}
	c.nodes = append(c.nodes, res.NodeID)
	subnet, err := c.subnet(fielderror.Join(at, "subnet"), res.Subnet)
	if err != nil {
		return err
	}
	for _, taken := range c.subnets {
		if taken.Overlaps(subnet) {
			return fielderror.New(fielderror.Join(at, "subnet"), res.Subnet, "apart from %s of another resource", taken)
		}
	}
	c.subnets = append(c.subnets, subnet)
	if err := validateWireGuardKey(fielderror.Join(at, "wg_public_key"), res.PublicKey); err != nil {
		return err
	}
	if c.keys[res.PublicKey] {
		return fielderror.New(fielderror.Join(at, "wg_public_key"), res.PublicKey, "another key than the other resources have")
	}
	c.keys[res.PublicKey] = true
	return c.peers(at, res, subnet)
}

func (c *networkCheck) subnet(field, text string) (netip.Prefix, error) {
	p, err := validatePrefix(field, text)
	if err != nil {
		return p, err
	}
	if !c.whole.Contains(p.Addr()) || p.Bits() <= networkBits || p.Bits() > narrowest {
		return p, fielderror.New(field, text, "a part of %s, from /%d to /%d", c.whole, networkBits+1, narrowest)
	}
	return p, nil
}

// validatePrefix accepts a range without host bits, of IPv4 or of IPv6: an
// IPv4 range written as IPv6 is neither, and matches no packet.
func validatePrefix(field, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return p, fielderror.New(field, text, "an address range such as 10.1.1.0/24, with nothing after the mask")
	}
	return p, nil
}
