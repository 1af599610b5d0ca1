package network

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/endpoints"
	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/wiring"
	"github.com/croft-edge/croft/pkg/node"
)

// Endpoints judges and resolves the endpoints that tenants name.
type Endpoints = endpoints.Resolver

// Rate bounds the traffic of a container.
type Rate = links.Rate

// Bounds of a rate that isn't 0, in bytes a second.
const (
	LeastRate = links.LeastRate
	MostRate  = links.MostRate
)

// Config is a Module's configuration.
type Config struct {
	// Dir is the module's folder; its content need not survive a reboot.
	Dir string
	// Carrier is how the wg carrier is found and started.
	Carrier carrier.Config
	// DNSServers are the name servers that networks' DNS asks for names that it doesn't know; none are those of /etc/resolv.conf.
	DNSServers []netip.AddrPort
	// Endpoints says where tunnels may lead.
	Endpoints Endpoints
	// Uplinks is the IPv4 range of the links between the node and its networks:
	// two addresses a network. Nothing else may use it.
	Uplinks netip.Prefix
	// Public is the range that public_ip6 addresses are given from; the zero
	// Prefix for none. It is routed to this node, which answers for no address of
	// it on a link.
	Public netip.Prefix
	// Refuse are the ranges that members don't reach; Allow the exceptions.
	Refuse []netip.Prefix
	Allow  []firewall.Allowed
	// Open are the TCP ports of the node itself that members reach.
	Open firewall.Ports
	// Own returns the ranges of the node itself. No network may overlap them.
	Own func() ([]netip.Prefix, error)
	// Rate bounds each container's traffic. VMs have none.
	Rate Rate
	Log  zerolog.Logger
}

// Sizes of ranges, in bits.
const (
	// leastUplinks and mostPublic leave room for some networks and members.
	leastUplinks = 28
	mostPublic   = 112
)

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return node.Errorf(node.Invalid, "cannot open the network module: Dir is %q, must be an absolute path", c.Dir)
	case c.Endpoints == nil || c.Own == nil:
		return node.Errorf(node.Invalid, "cannot open the network module: Endpoints and Own are both needed")
	case !c.Uplinks.IsValid() || !c.Uplinks.Addr().Is4() || c.Uplinks != c.Uplinks.Masked() || c.Uplinks.Bits() > leastUplinks:
		return node.Errorf(node.Invalid, "cannot open the network module: Uplinks is %s, must be an IPv4 range of at most /%d", c.Uplinks, leastUplinks)
	case c.Public.IsValid() && (!c.Public.Addr().Is6() || c.Public.Addr().Is4In6() || c.Public != c.Public.Masked() || c.Public.Bits() > mostPublic):
		return node.Errorf(node.Invalid, "cannot open the network module: Public is %s, must be an IPv6 range of at most /%d", c.Public, mostPublic)
	case !c.Rate.Valid():
		return node.Errorf(node.Invalid, "cannot open the network module: Rate is %d and %d bytes a second, each must be 0 or %d to %d", c.Rate.Send, c.Rate.Receive, uint64(LeastRate), uint64(MostRate))
	}
	return nil
}

// tag distinguishes the links and tables of nodes that share a machine.
func (c Config) tag() string {
	sum := sha256.Sum256([]byte(filepath.Clean(c.Dir)))
	return hex.EncodeToString(sum[:2])
}

// table is the name of the node's own nftables table.
func (c Config) table() string { return "croft-" + c.tag() }

// uplinkPrefix and publicPrefix start the names of the node's ends of links.
func (c Config) uplinkPrefix() string { return "cr" + c.tag() + "u" }
func (c Config) publicPrefix() string { return "cr" + c.tag() + "p" }

// LinkPrefixes start the names of the links in the node's namespace that
// aren't the machine's own.
func (c Config) LinkPrefixes() []string { return []string{c.uplinkPrefix(), c.publicPrefix()} }

// uplinks6 is the IPv6 range of uplinks: one of the node's own, unique local.
func (c Config) uplinks6() netip.Prefix {
	sum := sha256.Sum256([]byte("croft-uplinks" + filepath.Clean(c.Dir)))
	var a [16]byte
	a[0] = 0xfd
	copy(a[1:6], sum[:5])
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// firstIndex is the index of the uplink that is tried first: nodes that share a
// machine rarely have the same.
func (c Config) firstIndex(size int) int {
	sum := sha256.Sum256([]byte(filepath.Clean(c.Dir)))
	return int(binary.BigEndian.Uint16(sum[2:4])) % size
}

// hostRules are the rules of the node's own namespace.
func (c Config) hostRules() firewall.Node {
	return firewall.Node{
		Table: c.table(), Uplink: c.uplinkPrefix(), Public: c.publicPrefix(),
		Uplinks4: c.Uplinks, Uplinks6: c.uplinks6(), Refuse: c.Refuse, Allow: c.Allow, Open: c.Open,
	}
}

func (c Config) wiring() wiring.Config {
	return wiring.Config{
		Uplinks:      wiring.Uplinks{Prefix: c.uplinkPrefix(), Range4: c.Uplinks, Range6: c.uplinks6(), First: c.firstIndex},
		PublicPrefix: c.publicPrefix(), Rate: c.Rate,
	}
}
