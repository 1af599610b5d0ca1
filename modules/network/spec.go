package network

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// plan is a network resource as it shall be: a spec, read and checked.
type plan struct {
	spec    node.NetworkSpec
	ipRange netip.Prefix
	subnet  netip.Prefix
	// prefix6 is the whole network's IPv6 range, subnet6 this node's part.
	prefix6 netip.Prefix
	subnet6 netip.Prefix
	gateway netip.Addr
	// gateway6 is the gateway's IPv6 address.
	gateway6 netip.Addr
	// key is the zero one when the plan was read from disk.
	key   wireguard.Key
	peers []peer
}

type peer struct {
	key      wireguard.Key
	allowed  []netip.Prefix
	endpoint string
}

// keyLength is of keys in bytes, idLength of a network's ID in hex digits.
const (
	keyLength = 32
	idLength  = 64
)

// read checks a spec. What it returns is safe to act on. node.Invalid names
// the field. The document was validated before; the module believes nobody.
func read(spec node.NetworkSpec) (plan, error) {
	p := plan{spec: spec}
	if raw, err := hex.DecodeString(spec.ID); err != nil || len(spec.ID) != idLength || hex.EncodeToString(raw) != spec.ID {
		return p, p.invalid("ID", spec.ID, "the hex of a network's key")
	}
	if _, err := workload.ParseID(spec.Label); err != nil {
		return p, p.invalid("Label", spec.Label, "a reservation's ID")
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid("make network " + p.name()); err != nil {
		return p, err
	}
	if err := p.readRanges(); err != nil {
		return p, err
	}
	if spec.ListenPort < leastPort {
		return p, p.invalid("ListenPort", spec.ListenPort, "a port from 1024 to 65535")
	}
	if err := p.readKey(); err != nil {
		return p, err
	}
	return p, p.readPeers()
}

const leastPort = 1024

func (p *plan) readRanges() (err error) {
	spec := p.spec
	p.ipRange, err = netip.ParsePrefix(spec.IPRange)
	if err != nil || !p.ipRange.Addr().Is4() || p.ipRange != p.ipRange.Masked() || p.ipRange.Bits() != 16 || !p.ipRange.Addr().IsPrivate() {
		return p.invalid("IPRange", spec.IPRange, "a private IPv4 range of /16")
	}
	p.subnet, err = netip.ParsePrefix(spec.Subnet)
	if err != nil || p.subnet != p.subnet.Masked() || !p.ipRange.Contains(p.subnet.Addr()) || p.subnet.Bits() <= 16 || p.subnet.Bits() > 30 {
		return p.invalid("Subnet", spec.Subnet, "a part of "+spec.IPRange+", from /17 to /30")
	}
	p.gateway = p.subnet.Addr().Next()
	p.prefix6 = workload.NetworkPrefix6(spec.User, spec.Name)
	p.gateway6 = workload.Address6(p.prefix6, p.subnet, p.gateway)
	p.subnet6 = netip.PrefixFrom(p.gateway6, 64).Masked()
	return nil
}

func (p *plan) readKey() error {
	raw, err := base64.StdEncoding.Strict().DecodeString(p.spec.PrivateKey)
	if err != nil || len(raw) != keyLength {
		return node.Errorf(node.Invalid, "cannot make network %s: the private key must be %d bytes in standard base64", p.name(), keyLength)
	}
	copy(p.key[:], raw)
	private, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return node.Errorf(node.Invalid, "cannot make network %s: the private key isn't one", p.name())
	}
	public := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())
	if public != p.spec.PublicKey {
		return p.invalid("wg_public_key", p.spec.PublicKey, "the public key of wg_private_key")
	}
	return nil
}

func (p *plan) readPeers() error {
	p.peers = make([]peer, 0, len(p.spec.Peers))
	for _, w := range p.spec.Peers {
		raw, err := base64.StdEncoding.Strict().DecodeString(w.PublicKey)
		if err != nil || len(raw) != keyLength {
			return p.invalid("wg_public_key of a peer", w.PublicKey, "32 bytes in standard base64")
		}
		one := peer{key: wireguard.Key(raw), endpoint: w.Endpoint}
		for _, text := range w.AllowedIPs {
			a, err := netip.ParsePrefix(text)
			if err != nil || a != a.Masked() {
				return p.invalid("allowed_ips of a peer", text, "an address range such as 10.1.2.0/24")
			}
			one.allow(a)
			if a.Addr().Is4() && a.Bits() >= p.ipRange.Bits() && p.ipRange.Contains(a.Addr()) {
				one.allow(workload.Counterpart6(p.prefix6, p.ipRange, a))
			}
		}
		p.peers = append(p.peers, one)
	}
	return nil
}

func (p *peer) allow(a netip.Prefix) {
	if !slices.Contains(p.allowed, a) {
		p.allowed = append(p.allowed, a)
	}
}

// name is what the network is called in errors, which its user reads.
func (p plan) name() string { return strconv.Quote(shown(p.spec.Name)) }

// usable reports whether a member may have ip: the subnet's own address, its
// last one and the gateway's are nobody's.
func (p plan) usable(ip netip.Addr) bool {
	return p.subnet.Contains(ip) && ip != p.subnet.Addr() && ip != p.gateway && ip != lastOf(p.subnet)
}

// lastOf is the highest address of an IPv4 range.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	host := uint32(1)<<(32-p.Bits()) - 1
	for i := range a {
		a[i] |= byte(host >> (8 * (3 - i)))
	}
	return netip.AddrFrom4(a)
}

func (p plan) invalid(field string, value any, allowed string) error {
	return node.Errorf(node.Invalid, "cannot make network %s: %s is %q, must be %s", p.name(), field, shown(value), allowed)
}
