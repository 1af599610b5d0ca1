package network

import (
	"context"
	"net/netip"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// asked is a place in a network as it was asked for, read and checked.
type asked struct {
	network string
	id      string
	name    string
	ips     []netip.Addr
	public  bool
	tap     bool
	// namespace or pid says where it is, inode which one that is.
	namespace string
	pid       uint64
	inode     uint64
	// claim is whose it is.
	claim node.Claim
}

// memberID is what IDs of members look like; memberName is a DNS label.
func memberID() *regexp.Regexp   { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) }
func memberName() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) }

// mostIPs bounds the addresses of one member.
const mostIPs = 16

func cannotJoin(a asked, kind node.Kind, field string, value any, allowed string) error {
	return node.Errorf(kind, "cannot join member %s: %s is %q, must be %s", shown(a.id), field, shown(value), allowed)
}

// readAsked checks what doesn't depend on the network.
func readAsked(a asked, ips []string) (asked, error) {
	if !memberID().MatchString(a.id) {
		return a, cannotJoin(a, node.Invalid, "its ID", a.id, "1 to 64 letters, digits, dots and dashes")
	}
	if a.name != "" && !memberName().MatchString(a.name) {
		return a, cannotJoin(a, node.Invalid, "its name", a.name, "a DNS label of a-z, 0-9 and dashes")
	}
	if err := a.claim.Valid("join member " + a.id); err != nil {
		return a, err
	}
	if len(ips) > mostIPs {
		return a, cannotJoin(a, node.Invalid, "the number of ips", len(ips), "at most 16")
	}
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Unmap().Is4() {
			return a, cannotJoin(a, node.Invalid, "an IP", text, "an IPv4 address")
		}
		for _, other := range a.ips {
			if other == ip.Unmap() {
				return a, cannotJoin(a, node.Invalid, "an IP", text, "there once")
			}
		}
		a.ips = append(a.ips, ip.Unmap())
	}
	if a.tap {
		return a, nil
	}
	return a.identify()
}

// identify finds the namespace that is asked for: a file's or a process's.
func (a asked) identify() (asked, error) {
	field, value := "its network namespace", any(a.namespace)
	var err error
	switch {
	case a.namespace != "" && a.pid != 0:
		return a, node.Errorf(node.Invalid, "cannot join member %s: Namespace is %q and PID is %d, must be one of them", shown(a.id), shown(a.namespace), a.pid)
	case a.namespace == "" && a.pid == 0:
		return a, node.Errorf(node.Invalid, "cannot join member %s: neither Namespace nor PID is there, must be one of them", shown(a.id))
	case a.namespace == "":
		field, value = "its process", a.pid
		if a.inode, err = netns.Inode(netns.OfProcess(a.pid)); err != nil {
			return a, cannotJoin(a, node.Invalid, field, value, "one that runs")
		}
	case !filepath.IsAbs(a.namespace) || len(a.namespace) > unix.PathMax:
		return a, cannotJoin(a, node.Invalid, field, value, "an absolute path")
	default:
		if a.inode, err = netns.Kept(a.namespace); err != nil {
			return a, cannotJoin(a, node.Invalid, field, value, "a file that keeps a network namespace")
		}
	}
	if own, err := netns.OwnInode(); err == nil && own == a.inode {
		return a, cannotJoin(a, node.Refused, field, value, "in a network namespace of its own, not the node's")
	}
	return a, nil
}

// join gives a a place in its network, or brings the one that it has to what
// was asked for.
func (m *Module) join(ctx context.Context, a asked) (*network, *member, error) {
	done, err := m.begin()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	n := m.networks[a.network]
	if n == nil {
		return nil, nil, node.Errorf(node.NotExist, "cannot join member %s: there is no network %s on this node", a.id, shown(a.network))
	}
	before := n.Members[a.id]
	if before != nil {
		if err := a.claim.Check("join member "+a.id, before.Hash); err != nil {
			return nil, nil, err
		}
	}
	one, err := m.place(n, a)
	if err != nil {
		return nil, nil, err
	}
	if before != nil && (before.Inode != one.Inode || before.Tap != one.Tap) {
		// The old namespace may live on without its process: what is left in it goes.
		if err := m.unplug(n, before); err != nil {
			return nil, nil, err
		}
	} else if before != nil && !one.Public.IsValid() {
		if err := m.unplugPublic(before); err != nil {
			return nil, nil, err
		}
	}
	was := n.rules()
	n.Members[a.id] = one
	if err := m.ensureMember(ctx, n, one, was); err != nil {
		m.unjoin(ctx, n, one, before)
		return nil, nil, err
	}
	return n, one, nil
}

// unjoin takes back a place that could not be made; the one before stays.
func (m *Module) unjoin(ctx context.Context, n *network, one, before *member) {
	ctx = context.WithoutCancel(ctx)
	if before != nil {
		n.Members[one.ID] = before
	} else {
		if err := m.unplug(n, one); err != nil {
			m.cfg.Log.Error().Err(err).Str("id", one.ID).Str("step", "undo").Msg("a member's links stay")
		}
		delete(n.Members, one.ID)
	}
	if err := m.ensure(ctx, n); err != nil {
		m.cfg.Log.Error().Err(err).Str("id", one.ID).Str("step", "undo").Msg("a network could not be put back as it was: it is mended when it is looked at")
	}
}

// place decides where a is to be: its addresses, its port, its public address.
func (m *Module) place(n *network, a asked) (*member, error) {
	before := n.Members[a.id]
	one := &member{ID: a.id, Hash: a.claim.Hash, Name: a.name, Tap: a.tap, Namespace: a.namespace, PID: a.pid, Inode: a.inode}
	taken, ports := map[netip.Addr]string{}, map[int]bool{}
	for _, other := range n.Members {
		if other.ID == a.id {
			continue
		}
		ports[other.Index] = true
		for _, ip := range other.IPs {
			taken[ip] = other.ID
		}
	}
	if before != nil {
		one.Index = before.Index
	}
	for before == nil && ports[one.Index] {
		one.Index++
	}
	ips, err := n.choose(a, before, taken)
	if err != nil {
		return nil, err
	}
	one.IPs = ips
	switch {
	case !a.public:
	case before != nil && before.Public.IsValid():
		one.Public, one.PublicIndex = before.Public, before.PublicIndex
	default:
		one.Public, one.PublicIndex, err = m.choosePublic(a.id)
	}
	return one, err
}

// choose gives a the addresses that it asks for, those that it has, or a free one.
func (n *network) choose(a asked, before *member, taken map[netip.Addr]string) ([]netip.Addr, error) {
	for _, ip := range a.ips {
		switch {
		case ip == n.plan.gateway:
			return nil, cannotJoin(a, node.Refused, "an IP", ip, "another than the gateway's")
		case !n.plan.usable(ip):
			return nil, cannotJoin(a, node.Refused, "an IP", ip, "one of "+n.plan.subnet.String()+" but its first and last")
		case taken[ip] != "":
			return nil, cannotJoin(a, node.Refused, "an IP", ip, "one that no other member has")
		}
	}
	if len(a.ips) > 0 {
		return a.ips, nil
	}
	if before != nil {
		return before.IPs, nil
	}
	for ip := n.plan.gateway.Next(); n.plan.usable(ip); ip = ip.Next() {
		if taken[ip] == "" {
			return []netip.Addr{ip}, nil
		}
	}
	return nil, node.Errorf(node.NoSpace, "cannot join member %s: every address of %s is taken", a.id, n.plan.subnet)
}

// leave takes a member out of its network.
func (m *Module) leave(ctx context.Context, id, who string, tap bool) error {
	done, err := m.begin()
	if err != nil {
		return err
	}
	defer done()
	n := m.networks[id]
	if n == nil || n.Members[who] == nil || n.Members[who].Tap != tap {
		return node.Errorf(node.NotExist, "cannot take member %s out of network %s: it isn't in it", shown(who), shown(id))
	}
	if err := m.unplug(n, n.Members[who]); err != nil {
		return err
	}
	was := n.rules()
	delete(n.Members, who)
	// Its links are gone: that its name and its rules go too can be tried again.
	return m.ensureMember(ctx, n, nil, was)
}
