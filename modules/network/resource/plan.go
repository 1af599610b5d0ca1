package resource

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Plan is the desired state of a network resource: a spec, read and checked.
type Plan struct {
	Spec    node.NetworkSpec
	IPRange netip.Prefix
	Subnet  netip.Prefix
	// Prefix6 is the whole network's IPv6 range.
	Prefix6  netip.Prefix
	Gateway  netip.Addr
	Gateway6 netip.Addr
	// Key is the zero one when the plan was read from disk.
	Key   wireguard.Key
	Peers []Peer
}

// Peer is the other end of a tunnel.
type Peer struct {
	Key     wireguard.Key
	Allowed []netip.Prefix
	// Endpoint is its "host:port", empty for a peer that only calls.
	Endpoint string
}

// keyLength is of keys in bytes, IDLength of a network's ID in hex digits.
const (
	keyLength = 32
	IDLength  = 64
)

// Read checks a spec: its Plan is safe to act on. node.Invalid names the field. The
// engine has validated the document before; this module trusts no caller.
func Read(spec node.NetworkSpec) (Plan, error) {
	p := Plan{Spec: spec}
	if raw, err := hex.DecodeString(spec.ID); err != nil || len(spec.ID) != IDLength || hex.EncodeToString(raw) != spec.ID {
		return p, p.invalid("ID", spec.ID, "the hex of a network's key")
	}
	if _, err := workload.ParseID(spec.Label); err != nil {
		return p, p.invalid("Label", spec.Label, "a reservation's ID")
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid("make network " + p.Name()); err != nil {
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

// readStored reads a spec that was checked before and has lost its key.
func readStored(spec node.NetworkSpec) (Plan, error) {
	p := Plan{Spec: spec}
	if err := p.readRanges(); err != nil {
		return p, err
	}
	return p, p.readPeers()
}

const leastPort = 1024

func (p *Plan) readRanges() (err error) {
	spec := p.Spec
	p.IPRange, err = netip.ParsePrefix(spec.IPRange)
	if err != nil || !p.IPRange.Addr().Is4() || p.IPRange != p.IPRange.Masked() || p.IPRange.Bits() != 16 || !p.IPRange.Addr().IsPrivate() {
		return p.invalid("IPRange", spec.IPRange, "a private IPv4 range of /16")
	}
	p.Subnet, err = netip.ParsePrefix(spec.Subnet)
	if err != nil || p.Subnet != p.Subnet.Masked() || !p.IPRange.Contains(p.Subnet.Addr()) || p.Subnet.Bits() <= 16 || p.Subnet.Bits() > 30 {
		return p.invalid("Subnet", spec.Subnet, "a part of "+spec.IPRange+", from /17 to /30")
	}
	p.Gateway = p.Subnet.Addr().Next()
	p.Prefix6 = workload.NetworkPrefix6(spec.User, spec.Name)
	p.Gateway6 = workload.Address6(p.Prefix6, p.Subnet, p.Gateway)
	return nil
}

func (p *Plan) readKey() error {
	raw, err := base64.StdEncoding.Strict().DecodeString(p.Spec.PrivateKey)
	if err != nil || len(raw) != keyLength {
		return node.Errorf(node.Invalid, "cannot make network %s: the private key must be %d bytes in standard base64", p.Name(), keyLength)
	}
	copy(p.Key[:], raw)
	private, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return node.Errorf(node.Invalid, "cannot make network %s: the private key isn't one", p.Name())
	}
	public := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())
	if public != p.Spec.PublicKey {
		return p.invalid("wg_public_key", p.Spec.PublicKey, "the public key of wg_private_key")
	}
	return nil
}

func (p *Plan) readPeers() error {
	p.Peers = make([]Peer, 0, len(p.Spec.Peers))
	for _, w := range p.Spec.Peers {
		raw, err := base64.StdEncoding.Strict().DecodeString(w.PublicKey)
		if err != nil || len(raw) != keyLength {
			return p.invalid("wg_public_key of a peer", w.PublicKey, "32 bytes in standard base64")
		}
		one := Peer{Key: wireguard.Key(raw), Endpoint: w.Endpoint}
		for _, text := range w.AllowedIPs {
			a, err := netip.ParsePrefix(text)
			if err != nil || a != a.Masked() {
				return p.invalid("allowed_ips of a peer", text, "an address range such as 10.1.2.0/24")
			}
			one.allow(a)
			if a.Addr().Is4() && a.Bits() >= p.IPRange.Bits() && p.IPRange.Contains(a.Addr()) {
				one.allow(workload.Counterpart6(p.Prefix6, p.IPRange, a))
			}
		}
		p.Peers = append(p.Peers, one)
	}
	return nil
}

func (p *Peer) allow(a netip.Prefix) {
	if !slices.Contains(p.Allowed, a) {
		p.Allowed = append(p.Allowed, a)
	}
}

// Name is the network's name, quoted and bounded for errors, which its user reads.
func (p Plan) Name() string { return strconv.Quote(Bounded(p.Spec.Name)) }

// Usable reports whether a member may have ip: the subnet's own address, its
// last one and the gateway's are nobody's.
func (p Plan) Usable(ip netip.Addr) bool {
	return p.Subnet.Contains(ip) && ip != p.Subnet.Addr() && ip != p.Gateway && ip != lastOf(p.Subnet)
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

func (p Plan) invalid(field string, value any, allowed string) error {
	return node.Errorf(node.Invalid, "cannot make network %s: %s is %q, must be %s", p.Name(), field, Bounded(value), allowed)
}

// Bounded bounds the part of a value that goes into an error.
func Bounded(value any) string {
	const most = 64
	text := fmt.Sprint(value)
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
