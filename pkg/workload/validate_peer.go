package workload

import (
	"encoding/base64"
	"net"
	"net/netip"
	"strconv"

	"github.com/croft-edge/croft/pkg/fielderror"
)

// peerCheck records the keys and ranges of one resource and its peers so far.
type peerCheck struct {
	network *networkCheck
	subnet  netip.Prefix
	// own are the ranges of the resource itself: its subnet, the counterpart in
	// IPv6, and its address in tunnels.
	own     []netip.Prefix
	keys    map[string]bool
	subnets []netip.Prefix
	// allowed has the peer of each range, and of the range's counterpart in IPv6.
	allowed map[netip.Prefix]int
}

// peers checks a resource's peers.
//
// A peer's allowed_ips: WireGuard sends to the peer with the longest range that holds
// the address, and accepts from a peer only packets from its ranges. So a range wider
// than the resource's own subnet is legitimate: 0.0.0.0/0, a half of it, or the whole
// ip_range, for a peer that is the way to all others: members stay nearer, because the
// own subnet is the longer prefix. (The node's firewall has to drop packets from there
// with an address of the own subnet.) A range that is the own subnet or a part of it
// would take members' packets away and let the peer speak in their name: it is refused,
// and so are the same in IPv6 and the resource's own address in tunnels. Two peers'
// ranges may contain each other, for the same reason; the same range at two peers is
// refused, for WireGuard silently gives it to the last one.
func (c *networkCheck) peers(at string, res *NetworkResource, subnet netip.Prefix) error {
	p := peerCheck{network: c, subnet: subnet, own: c.own(subnet), keys: map[string]bool{res.PublicKey: true}, allowed: map[netip.Prefix]int{}}
	for i := range res.Peers {
		if err := p.peer(fielderror.Index(fielderror.Join(at, "peers"), i), i, &res.Peers[i]); err != nil {
			return err
		}
	}
	return nil
}

// own are the ranges that only the resource with that subnet may have.
func (c *networkCheck) own(subnet netip.Prefix) []netip.Prefix {
	out := []netip.Prefix{subnet, Counterpart6(c.whole6, c.whole, subnet)}
	if ip, ok := TunnelAddress(subnet); ok {
		out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return out
}

func (c *peerCheck) peer(at string, i int, p *WireGuardPeer) error {
	subnet, err := c.network.subnet(fielderror.Join(at, "subnet"), p.Subnet)
	if err != nil {
		return err
	}
	if subnet.Overlaps(c.subnet) {
		return fielderror.New(fielderror.Join(at, "subnet"), p.Subnet, "apart from the resource's own subnet, %s", c.subnet)
	}
	for _, taken := range c.subnets {
		if subnet.Overlaps(taken) {
			return fielderror.New(fielderror.Join(at, "subnet"), p.Subnet, "apart from %s of another peer", taken)
		}
	}
	c.subnets = append(c.subnets, subnet)
	if err := validateWireGuardKey(fielderror.Join(at, "wg_public_key"), p.PublicKey); err != nil {
		return err
	}
	if c.keys[p.PublicKey] {
		return fielderror.New(fielderror.Join(at, "wg_public_key"), p.PublicKey, "another key than the resource and its other peers have")
	}
	c.keys[p.PublicKey] = true
	for j, text := range p.AllowedIPs {
		if err := c.allow(fielderror.Index(fielderror.Join(at, "allowed_ips"), j), text, i); err != nil {
			return err
		}
	}
	return validateEndpoint(fielderror.Join(at, "endpoint"), p.Endpoint)
}

// allow checks one of peer i's allowed_ips (see peers).
func (c *peerCheck) allow(field, text string, i int) error {
	ip, err := validatePrefix(field, text)
	if err != nil {
		return err
	}
	for _, own := range c.own {
		if ip.Overlaps(own) && ip.Bits() >= own.Bits() {
			return fielderror.New(field, text, "apart from %s, which is the resource's own, or wider than it", own)
		}
	}
	for _, r := range []netip.Prefix{ip, Counterpart6(c.network.whole6, c.network.whole, ip)} {
		if !r.IsValid() {
			continue // it has no counterpart
		}
		if other, taken := c.allowed[r]; taken && other != i {
			return fielderror.New(field, text, "another range than other peers have: peers[%d] has %s", other, r)
		}
		c.allowed[r] = i
	}
	return nil
}

func validateWireGuardKey(field, text string) error {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != 32 {
		return fielderror.New(field, text, "32 bytes in standard base64")
	}
	if lowOrder([32]byte(key)) {
		return fielderror.New(field, text, "a public key: this is a point of low order, which anybody has the secret of")
	}
	return nil
}

// lowOrder reports whether a Curve25519 key is one of the points whose shared
// secret is 0 whatever the other key is (RFC 7748, section 6.1): all encodings that
// X25519 reads as one of them. It ignores the highest bit, as X25519 does.
func lowOrder(key [32]byte) bool {
	key[31] &= 0x7f
	switch key {
	case [32]byte{}, [32]byte{1},
		// The two points of order 8.
		[32]byte{0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8},
		[32]byte{0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57}:
		return true
	}
	// p-1, which is -1; p and p+1, which are 0 and 1: p is 2^255-19.
	low := key[0]
	key[0] = 0xff
	return low >= 0xec && low <= 0xee && key == allOnes()
}

// allOnes is 2^255-1.
func allOnes() (key [32]byte) {
	for i := range key {
		key[i] = 0xff
	}
	key[31] = 0x7f
	return key
}

// validateEndpoint accepts HOST:PORT, and an empty text for an unreachable peer.
// Whether a node may send there is for the node to judge: a private address is
// valid here.
func validateEndpoint(field, text string) error {
	if text == "" {
		return nil
	}
	const allowed = "HOST:PORT with a port from 1 to 65535, or empty"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return fielderror.New(field, text, allowed)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fielderror.New(field, text, allowed)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && !hostName(host) || ip.Zone() != "" {
		return fielderror.New(field, text, allowed)
	}
	if ip = ip.Unmap(); err == nil && (ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})) {
		return fielderror.New(field, text, "the address of one host and a port, or empty")
	}
	return nil
}
