package wireguard

import (
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// DefaultMTU is 1500 bytes without the headers of IPv6, UDP and WireGuard.
const DefaultMTU = 1420

// KeepNAT is the keepalive of peers with an endpoint: often enough that the
// mapping of a NAT on the way stays open for the packets that come back.
const KeepNAT = 25 * time.Second

// NoKeepalive asks for none though an endpoint is given.
const NoKeepalive = -1

// Bounds of a device.
const (
	minMTU   = 1280 // IPv6 needs that much
	maxMTU   = 1500
	maxPeers = 4096
	maxIPs   = 4096
)

// Config is a device as it should be.
type Config struct {
	// Name is the link's inside Namespace, such as "wg0".
	Name string `json:"name"`
	// Namespace is the path of a file that a network namespace is mounted on.
	Namespace  string `json:"namespace"`
	PrivateKey Key    `json:"private_key"`
	// ListenPort is the UDP port, in the namespace of the process; 0 for any.
	ListenPort uint16 `json:"listen_port"`
	// MTU of the link in bytes; 0 for DefaultMTU.
	MTU   int    `json:"mtu"`
	Peers []Peer `json:"peers"`
}

// Peer is the other end of a tunnel.
type Peer struct {
	PublicKey Key `json:"public_key"`
	// Endpoint is where it is reached; zero when only it can begin.
	Endpoint   netip.AddrPort `json:"endpoint"`
	AllowedIPs []netip.Prefix `json:"allowed_ips"`
	// Keepalive is how often an empty packet is sent, in whole seconds; 0 is
	// KeepNAT with an endpoint and none without.
	Keepalive time.Duration `json:"keepalive"`
}

// Normal is c with its defaults filled in, prefixes masked, and peers and
// prefixes in one order: two configurations that mean the same are equal.
func (c Config) Normal() Config {
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	peers := make([]Peer, 0, len(c.Peers))
	for _, p := range c.Peers {
		peers = append(peers, p.normal())
	}
	slices.SortFunc(peers, func(a, b Peer) int { return slices.Compare(a.PublicKey[:], b.PublicKey[:]) })
	c.Peers = peers
	return c
}

func (p Peer) normal() Peer {
	if p.Endpoint.IsValid() {
		p.Endpoint = netip.AddrPortFrom(p.Endpoint.Addr().Unmap(), p.Endpoint.Port())
	}
	if p.Keepalive == 0 && p.Endpoint.IsValid() {
		p.Keepalive = KeepNAT
	}
	p.Keepalive = max(p.Keepalive, 0).Truncate(time.Second)
	p.AllowedIPs = sorted(p.AllowedIPs)
	return p
}

func sorted(prefixes []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// A link's name is one that the kernel accepts and that can be a file's.
var linkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$`)

// Validate names the field that no device can have. The error is node.Invalid.
func (c Config) Validate() error {
	switch {
	case !linkName.MatchString(c.Name):
		return invalid("cannot use name %q: it must be 1 to 15 letters, digits, - and _, the first a letter or digit", c.Name)
	case !filepath.IsAbs(c.Namespace):
		return invalid("cannot use namespace %q of %s: it must be an absolute path", c.Namespace, c.Name)
	case c.PrivateKey.IsZero():
		return invalid("cannot use the private key of %s: it is zero", c.Name)
	case c.MTU != 0 && (c.MTU < minMTU || c.MTU > maxMTU):
		return invalid("cannot use MTU %d of %s: it must be %d to %d", c.MTU, c.Name, minMTU, maxMTU)
	case len(c.Peers) > maxPeers:
		return invalid("cannot use %d peers of %s: at most %d are allowed", len(c.Peers), c.Name, maxPeers)
	}
	seen, ips, whose := map[Key]bool{c.PrivateKey.Public(): true}, 0, map[netip.Prefix]Key{}
	for _, p := range c.Peers {
		if seen[p.PublicKey] {
			return invalid("cannot use peer %s of %s: its key is there twice, or the device's own", p.PublicKey, c.Name)
		}
		seen[p.PublicKey] = true
		ips += len(p.AllowedIPs)
		if err := p.validate(); err != nil {
			return err
		}
		for _, prefix := range p.AllowedIPs {
			if other, taken := whose[prefix.Masked()]; taken && other != p.PublicKey {
				return invalid("cannot use allowed IP %s of peer %s of %s: it is that of peer %s", prefix, p.PublicKey, c.Name, other)
			}
			whose[prefix.Masked()] = p.PublicKey
		}
	}
	if ips > maxIPs {
		return invalid("cannot use %d allowed IPs of %s: at most %d are allowed", ips, c.Name, maxIPs)
	}
	return nil
}

func (p Peer) validate() error {
	switch {
	case p.PublicKey.IsZero():
		return invalid("cannot use a peer: its public key is zero")
	case p.Endpoint != (netip.AddrPort{}) && (!p.Endpoint.IsValid() || p.Endpoint.Port() == 0 || p.Endpoint.Addr().IsUnspecified()):
		return invalid("cannot use endpoint %s of peer %s: it must be an IP address and a port", p.Endpoint, p.PublicKey)
	case p.Keepalive > 65535*time.Second:
		return invalid("cannot use keepalive %s of peer %s: it must be at most 65535 s", p.Keepalive, p.PublicKey)
	}
	for _, prefix := range p.AllowedIPs {
		if !prefix.IsValid() || prefix.Addr().Is4In6() {
			return invalid("cannot use allowed IP %s of peer %s: it must be an IPv4 or IPv6 prefix", prefix, p.PublicKey)
		}
	}
	return nil
}

func invalid(format string, args ...any) error { return node.Errorf(node.Invalid, format, args...) }
