package mesh

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/croft-edge/croft/pkg/workload"
)

// TunnelRange is where the addresses of tunnels are from.
const TunnelRange = "100.64.0.0/16"

// keepalive is often enough that the mapping of a NAT stays open, in seconds.
const keepalive = 25

// Quick is all that a wg-quick file is made of.
type Quick struct {
	Network Network
	// User is whose network it is: its IPv6 range follows from that.
	User   string
	Access Access
	// PrivateKey is the access', empty where it isn't known.
	PrivateKey string
	// ViaKey is the public key of the node that is called.
	ViaKey string
}

// Addresses are those of the access, IPv4 first.
func (q Quick) Addresses() []netip.Prefix {
	v4 := q.Access.Address()
	v6 := workload.Address6(workload.NetworkPrefix6(q.User, q.Network.Name), q.Access.Subnet, v4)
	return []netip.Prefix{netip.PrefixFrom(v4, v4.BitLen()), netip.PrefixFrom(v6, v6.BitLen())}
}

// AllowedIPs are all that is reached through the tunnel.
func (q Quick) AllowedIPs() []netip.Prefix {
	return []netip.Prefix{q.Network.IPRange, netip.MustParsePrefix(TunnelRange), workload.NetworkPrefix6(q.User, q.Network.Name)}
}

// String is the file. The access must go by way of a public node of the
// network. No DNS is in it: a node's answers its own members only.
func (q Quick) String() string {
	via := q.Network.Find(q.Access.Via)
	private := "PrivateKey = " + q.PrivateKey
	if q.PrivateKey == "" {
		private = "# PrivateKey = the one that belongs to " + q.Access.PublicKey
	}
	return fmt.Sprintf(`# %s in network %s, by way of node %s
[Interface]
%s
Address = %s

[Peer]
PublicKey = %s
AllowedIPs = %s
Endpoint = %s
PersistentKeepalive = %d
`, q.Access.Name, q.Network.Name, via.ID, private, listed(q.Addresses()), q.ViaKey, listed(q.AllowedIPs()), via.Endpoint, keepalive)
}

func listed(prefixes []netip.Prefix) string {
	out := make([]string, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.String()
	}
	return strings.Join(out, ", ")
}
