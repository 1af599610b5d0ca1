package fakenode

import (
	"net/netip"
	"path"
	"slices"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// mostIPs is how many addresses a member has at most.
const mostIPs = 16

// member is a member of a network, a VM's tap among them.
type member struct {
	spec   node.MemberSpec
	ips    []netip.Addr
	public netip.Addr
	tap    bool
	// drift is a tap's.
	drift string
}

// Join implements node.Networks.
func (n *Networks) Join(spec node.MemberSpec) (node.Member, error) {
	return answer(n.calls, "Networks.Join", spec.Member, func() (node.Member, error) {
		ips, err := readMember(spec)
		if err != nil {
			return node.Member{}, err
		}
		if err := n.places.check(spec); err != nil {
			return node.Member{}, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		one, err := n.find("join network", spec.Network)
		if err != nil {
			return node.Member{}, err
		}
		m, err := n.place(one, member{spec: spec, ips: ips})
		if err != nil {
			return node.Member{}, err
		}
		return n.member(one, m), nil
	})
}

// Leave implements node.Networks.
func (n *Networks) Leave(network, id string) error {
	return carryOut(n.calls, "Networks.Leave", id, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		one, err := n.find("leave network", network)
		if err != nil {
			return err
		}
		i := one.index(id)
		if i < 0 || one.members[i].tap {
			return node.Errorf(node.NotExist, "cannot leave network %.80q: %.80q isn't a member", network, id)
		}
		one.members = slices.Delete(one.members, i, i+1)
		return nil
	})
}

func refused(kind node.Kind, id, field, value, allowed string) error {
	return node.Errorf(kind, "cannot join member %s: %s is %q, must be %s", clip.Text(id, 64), field, clip.Text(value, 300), allowed)
}

// readMember does the checks that need no network.
func readMember(spec node.MemberSpec) (ips []netip.Addr, err error) {
	if !goodName(spec.Member) {
		return nil, refused(node.Invalid, spec.Member, "its ID", spec.Member, "1 to 64 letters, digits, dots and dashes")
	}
	if !memberName.MatchString(spec.Name) {
		return nil, refused(node.Invalid, spec.Member, "its name", spec.Name, "a DNS label of a-z, 0-9 and dashes")
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid("join member " + spec.Member); err != nil {
		return nil, err
	}
	if len(spec.IPs) > mostIPs {
		return nil, node.Errorf(node.Invalid, "cannot join member %s: the number of ips is %d, must be at most %d", spec.Member, len(spec.IPs), mostIPs)
	}
	for _, text := range spec.IPs {
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Is4() {
			return nil, refused(node.Invalid, spec.Member, "an IP", text, "an IPv4 address")
		}
		if slices.Contains(ips, ip) {
			return nil, refused(node.Invalid, spec.Member, "an IP", text, "there once")
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

// check checks that the member's namespace is one.
func (p *places) check(spec node.MemberSpec) error {
	field, value, kind := "its network namespace", spec.Namespace, p.ofFile(spec.Namespace)
	switch {
	case spec.Namespace != "" && spec.PID != 0:
		return node.Errorf(node.Invalid, "cannot join member %s: Namespace is %q and PID is %d, must be one of them", spec.Member, clip.Text(spec.Namespace, 64), spec.PID)
	case spec.Namespace == "" && spec.PID == 0:
		return node.Errorf(node.Invalid, "cannot join member %s: neither Namespace nor PID is there, must be one of them", spec.Member)
	case spec.PID != 0:
		field, value, kind = "its process", "", p.ofProcess(spec.PID)
	case !path.IsAbs(spec.Namespace) || len(spec.Namespace) > 4096:
		return refused(node.Invalid, spec.Member, field, value, "an absolute path")
	}
	switch {
	case kind == nodePlace:
		return refused(node.Refused, spec.Member, field, value, "in a network namespace of its own, not the node's")
	case kind == networkPlace:
		return nil
	case spec.PID != 0:
		return refused(node.Invalid, spec.Member, field, value, "one that runs")
	}
	return refused(node.Invalid, spec.Member, field, value, "a file that keeps a network namespace")
}

// place adds a member, or changes the one of its ID. The caller holds mu.
func (n *Networks) place(one *network, m member) (member, error) {
	id, i := m.spec.Member, one.index(m.spec.Member)
	if i >= 0 {
		if err := (node.Claim{Hash: m.spec.Hash, AdoptUnlabelled: m.spec.AdoptUnlabelled}).Check("join member "+id, one.members[i].spec.Hash); err != nil {
			return m, err
		}
	}
	if err := one.free(m); err != nil {
		return m, err
	}
	if m.spec.PublicIP6 && !n.public.IsValid() {
		return m, refused(node.Refused, id, "public_ip6", "true", "false: this node has no public IPv6 range")
	}
	if m.spec.PublicIP6 {
		m.public = n.public.Addr().Next()
		for n.hasPublic(m.public, id) {
			m.public = m.public.Next()
		}
	}
	switch {
	case len(m.ips) > 0:
	case i >= 0:
		m.ips = one.members[i].ips
	default:
		ip, ok := one.choose()
		if !ok {
			return m, node.Errorf(node.NoSpace, "cannot join member %s: every address of %s is taken", id, one.subnet)
		}
		m.ips = []netip.Addr{ip}
	}
	if i >= 0 {
		one.members[i] = m
	} else {
		one.members = append(one.members, m)
	}
	return m, nil
}

// free checks the addresses that a member asks for.
func (n *network) free(m member) error {
	for _, ip := range m.ips {
		switch {
		case ip == n.gateway:
			return refused(node.Refused, m.spec.Member, "an IP", ip.String(), "another than the gateway's")
		case !n.usable(ip):
			return refused(node.Refused, m.spec.Member, "an IP", ip.String(), "one of "+n.subnet.String()+" but its first and last")
		case n.taken(ip, m.spec.Member):
			return refused(node.Refused, m.spec.Member, "an IP", ip.String(), "one that no other member has")
		}
	}
	return nil
}

// choose is the lowest free address.
func (n *network) choose() (netip.Addr, bool) {
	for ip := n.gateway.Next(); n.usable(ip); ip = ip.Next() {
		if !n.taken(ip, "") {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// taken reports whether another member than that one has an address.
func (n *network) taken(ip netip.Addr, but string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return m.spec.Member != but && slices.Contains(m.ips, ip) })
}

// hasPublic reports whether another member than that one has a public address.
func (n *Networks) hasPublic(ip netip.Addr, but string) bool {
	for _, one := range n.have {
		if slices.ContainsFunc(one.members, func(m member) bool { return m.spec.Member != but && m.public == ip }) {
			return true
		}
	}
	return false
}

func (n *network) index(id string) int {
	return slices.IndexFunc(n.members, func(m member) bool { return m.spec.Member == id })
}

func (n *Networks) member(one *network, m member) node.Member {
	out := node.Member{Network: one.spec.ID, Member: m.spec.Member, Name: m.spec.Name, Hash: m.spec.Hash, IPs: []string{}}
	if one.gateway.IsValid() {
		out.Gateway, out.Gateway6 = one.gateway.String(), one.address6(one.gateway)
	}
	for _, ip := range m.ips {
		out.IPs = append(out.IPs, ip.String())
	}
	if len(m.ips) > 0 {
		out.IPv4, out.IPv6 = m.ips[0].String(), one.address6(m.ips[0])
	}
	if m.public.IsValid() {
		out.PublicIPv6 = m.public.String()
	}
	if !m.tap && n.places.check(m.spec) != nil {
		out.Drift = "its network namespace is gone"
	}
	return out
}
