package network

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// The node's own part: that it forwards, and the rules of its namespace. It is
// there from the first network on.

// hostFile keeps what is known of the node's rules.
const hostFile = "node.json"

// host is what is kept of the node's own part.
type host struct {
	Rules applied `json:"rules"`
	// Opened4 and Opened6 are that the node didn't forward in that family
	// before this module made it.
	Opened4 bool `json:"opened4"`
	Opened6 bool `json:"opened6"`

	digest hostDigest
	// lacks says what this kernel can't do that was asked for, empty for nothing.
	lacks string
}

// What makes the node forward.
const (
	forward4 = "net/ipv4/ip_forward"
	forward6 = "net/ipv6/conf/all/forwarding"
)

// isOff reports whether one of the kernel's switches is off.
func isOff(name string) bool {
	value, err := os.ReadFile("/proc/sys/" + name)
	return err == nil && string(value) != "1\n"
}

func (m *Module) hostRules() firewall.Node {
	return firewall.Node{
		Table: m.cfg.table(), Uplink: m.cfg.uplinkPrefix(), Public: m.cfg.publicPrefix(),
		Uplinks4: m.cfg.Uplinks, Uplinks6: m.cfg.uplinks6(), Refuse: m.cfg.Refuse, Allow: m.cfg.Allow, Open: m.cfg.Open,
		Closed4: m.host.Opened4, Closed6: m.host.Opened6,
	}
}

// hostDigest is that of the node's rules. It takes a while, and each change of a
// member asks for it: it is made again only when what may change has.
func (m *Module) hostDigest() string {
	of := [2]bool{m.host.Opened4, m.host.Opened6}
	if m.host.digest.text == "" || m.host.digest.of != of {
		m.host.digest = hostDigest{of: of, text: m.hostRules().Digest()}
	}
	return m.host.digest.text
}

// hostDigest is the digest of the node's rules with that in Opened4 and Opened6;
// the rest of them is configured.
type hostDigest struct {
	of   [2]bool
	text string
}

// ensureHost brings the node's own part to what it shall be, and returns what differed.
func (m *Module) ensureHost() (string, error) {
	drift, err := m.checkHost()
	if err != nil || drift == "" {
		return drift, err
	}
	// The rules come first: there is no moment in which the node forwards for all.
	m.host.Opened4 = m.host.Opened4 || isOff(forward4)
	m.host.Opened6 = m.host.Opened6 || isOff(forward6)
	if err := m.applyHost(); err != nil {
		return drift, err
	}
	return drift, firstError([]error{forwardAll(forward4), forwardAll(forward6)})
}

// applyHost applies the node's rules and keeps what they are.
func (m *Module) applyHost() error {
	fingerprint, err := firewall.ApplyNode("", m.hostRules())
	if err != nil {
		return err
	}
	m.host.Rules = applied{Digest: m.hostDigest(), Fingerprint: fingerprint}
	raw, err := json.Marshal(m.host)
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	if err := renameio.WriteFile(filepath.Join(m.cfg.Dir, hostFile), raw, 0o600); err != nil {
		return node.Errorf(node.Internal, "cannot keep what the node's rules are: %w", err)
	}
	return nil
}

// checkHost says what of the node's own part isn't as it should be.
func (m *Module) checkHost() (drift string, err error) {
	for _, name := range []string{forward4, forward6} {
		if isOff(name) {
			return name + " is off", nil
		}
	}
	m.host.Rules, drift, err = m.host.Rules.look("", m.hostDigest())
	return drift, err
}

func (m *Module) loadHost() {
	var err error
	if m.host, err = readHost(m.cfg.Dir); err != nil && !os.IsNotExist(err) {
		m.cfg.Log.Warn().Err(err).Str("step", "load").Msg("cannot read what the node's rules were: they are applied anew")
	}
}

func readHost(dir string) (h host, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, hostFile))
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	return h, err
}

// forwardAll makes the node forward. An interface that has its own addresses
// from router advertisements goes on hearing them: else a node that begins to
// forward would lose its way out.
func forwardAll(name string) error {
	if !isOff(name) {
		return nil
	}
	listeners, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	for _, file := range listeners {
		if value, err := os.ReadFile(file); err == nil && string(value) == "1\n" {
			if err := os.WriteFile(file, []byte("2"), 0o600); err != nil {
				return node.Errorf(node.Internal, "cannot set %s: %w", file, err)
			}
		}
	}
	return sysctl(name, "1")
}

// sysctl sets one of the kernel's settings in the thread's namespace. One that
// this kernel doesn't have need not be set.
func sysctl(name, value string) error {
	err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o600)
	if err == nil || os.IsNotExist(err) {
		return nil
	}
	return node.Errorf(node.Internal, "cannot set %s to %s: %w", name, value, err)
}

// allocate chooses the index of a new uplink: one whose name and addresses
// nothing in the node's namespace has.
func (m *Module) allocate() (int, error) {
	taken := map[int]bool{}
	for _, n := range m.networks {
		taken[n.Index] = true
	}
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0, node.Errorf(node.Internal, "cannot list the node's addresses: %w", err)
	}
	used := map[netip.Addr]bool{}
	for _, a := range addresses {
		used[fromIPNet(a.IPNet).Addr()] = true
	}
	size := 1 << (31 - m.cfg.Uplinks.Bits())
	start := m.cfg.firstIndex(size)
	for i := range size {
		index := (start + i) % size
		ours, theirs := m.uplinkAddresses(index)
		if taken[index] || used[ours[0].Addr()] || used[theirs[0].Addr()] {
			continue
		}
		if _, err := netlink.LinkByName(m.uplinkLink(index)); isNoLink(err) {
			return index, nil
		}
	}
	return 0, node.Errorf(node.NoSpace, "cannot make another network: all %d uplinks of %s are taken", size, m.cfg.Uplinks)
}

// overlapsNode refuses a subnet that is the node's own, or the uplinks'. It
// doesn't tell which of the node's: that isn't a tenant's business.
func (m *Module) overlapsNode(p plan) error {
	own, err := m.cfg.Own()
	if err != nil {
		return node.Errorf(node.Transient, "cannot make network %s: the node's own ranges aren't known: %w", p.name(), err)
	}
	for _, o := range append(own, m.cfg.Uplinks) {
		if o.Overlaps(p.subnet) {
			m.cfg.Log.Warn().Str("id", p.spec.Label).Str("type", "network").Str("step", "create").Stringer("subnet", p.subnet).Stringer("range", o).
				Msg("refused: its subnet overlaps a range of the node's")
			return node.Errorf(node.Refused, "cannot make network %s: subnet is %s, must be apart from the ranges that the node itself uses", p.name(), p.subnet)
		}
	}
	return nil
}
