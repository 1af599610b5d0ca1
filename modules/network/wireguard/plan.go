package wireguard

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// sessionLife is how long a session lasts without a new handshake: a younger
// one is alive, so its peer was really heard at its endpoint.
const sessionLife = 3 * time.Minute

// Plan returns the changes that make the actual device the wanted one. It repeats
// no value that is right already: a private key sent again would end sessions, a
// port sent again would reopen the socket.
//
// last is the configuration that was set before, nil when nobody remembers. A
// peer that moved keeps the endpoint that it was heard at, until another one
// is wanted than last time.
func Plan(wanted Config, last *Config, actual Status, now time.Time) wgtypes.Config {
	wanted = wanted.Normal()
	var change wgtypes.Config
	if wanted.PrivateKey.Public() != actual.PublicKey {
		key := wgtypes.Key(wanted.PrivateKey)
		change.PrivateKey = &key
	}
	if wanted.ListenPort != 0 && wanted.ListenPort != actual.ListenPort {
		port := int(wanted.ListenPort)
		change.ListenPort = &port
	}
	there := map[Key]PeerStatus{}
	for _, p := range actual.Peers {
		there[p.PublicKey] = p
	}
	// Peers that go are first: their ranges may be another's now.
	for _, p := range actual.Peers {
		if !slices.ContainsFunc(wanted.Peers, func(w Peer) bool { return w.PublicKey == p.PublicKey }) {
			change.Peers = append(change.Peers, wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.PublicKey), Remove: true})
		}
	}
	before := wantedBefore(last)
	for _, p := range wanted.Peers {
		status, stays := there[p.PublicKey]
		if !stays {
			change.Peers = append(change.Peers, added(p))
			continue
		}
		if c, differs := updated(p, status, endpointWanted(p, before, status, now)); differs {
			change.Peers = append(change.Peers, c)
		}
	}
	return change
}

// SamePeers reports whether the device has the wanted peers, and each of them its ranges. Where a peer is now doesn't matter: it may have moved.
func SamePeers(wanted Config, actual Status) bool {
	if len(wanted.Peers) != len(actual.Peers) {
		return false
	}
	there := make(map[Key][]netip.Prefix, len(actual.Peers))
	for _, p := range actual.Peers {
		there[p.PublicKey] = p.AllowedIPs
	}
	for _, p := range wanted.Peers {
		ranges, has := there[p.PublicKey]
		if !has || !slices.Equal(sorted(p.AllowedIPs), sorted(ranges)) {
			return false
		}
	}
	return true
}

// Empty reports whether a plan changes nothing.
func Empty(c wgtypes.Config) bool {
	return c.PrivateKey == nil && c.ListenPort == nil && len(c.Peers) == 0
}

// wantedBefore is the endpoint of each peer of last, nil without a last.
func wantedBefore(last *Config) map[Key]netip.AddrPort {
	if last == nil {
		return nil
	}
	out := map[Key]netip.AddrPort{}
	for _, p := range last.Normal().Peers {
		out[p.PublicKey] = p.Endpoint
	}
	return out
}

// endpointWanted reports whether p's endpoint has to be set on a peer that stays.
func endpointWanted(p Peer, before map[Key]netip.AddrPort, status PeerStatus, now time.Time) bool {
	if !p.Endpoint.IsValid() || p.Endpoint == status.Endpoint {
		return false
	}
	if before == nil {
		return !status.Endpoint.IsValid() || now.Sub(status.LastHandshake) > sessionLife
	}
	return before[p.PublicKey] != p.Endpoint
}

func added(p Peer) wgtypes.PeerConfig {
	return wgtypes.PeerConfig{
		PublicKey: wgtypes.Key(p.PublicKey), Endpoint: endpoint(p), PersistentKeepaliveInterval: keepalive(p),
		ReplaceAllowedIPs: true, AllowedIPs: allowed(p),
	}
}

// updated is the change of a peer that stays. The kernel and userspace both
// forget all its allowed IPs for a moment when they are replaced, so that is
// done only when they differ.
func updated(p Peer, status PeerStatus, move bool) (c wgtypes.PeerConfig, differs bool) {
	c = wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.PublicKey), UpdateOnly: true}
	if move {
		c.Endpoint, differs = endpoint(p), true
	}
	if p.Keepalive != status.Keepalive {
		c.PersistentKeepaliveInterval, differs = keepalive(p), true
	}
	if !slices.Equal(p.AllowedIPs, sorted(status.AllowedIPs)) {
		c.ReplaceAllowedIPs, c.AllowedIPs, differs = true, allowed(p), true
	}
	return c, differs
}

func endpoint(p Peer) *net.UDPAddr {
	if !p.Endpoint.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(p.Endpoint)
}

func keepalive(p Peer) *time.Duration { return &p.Keepalive }

func allowed(p Peer) []net.IPNet {
	out := make([]net.IPNet, 0, len(p.AllowedIPs))
	for _, prefix := range p.AllowedIPs {
		out = append(out, net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())})
	}
	return out
}
