package network

import (
	"context"
	"net"
	"os"
	"strconv"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// create makes a network, or changes the one of that ID in place. All that can
// be refused is refused before anything is changed.
func (m *Module) create(ctx context.Context, spec node.NetworkSpec) (node.NetworkInfo, error) {
	p, err := read(spec)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	endpoints, err := m.literals(p)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	done, err := m.begin()
	if err != nil {
		return node.NetworkInfo{}, err
	}
	defer done()
	old := m.networks[p.spec.ID]
	if err := m.admit(p, old); err != nil {
		return node.NetworkInfo{}, err
	}
	n, err := m.renewed(p, endpoints, old)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	m.networks[n.id()] = n
	if err := m.ensure(ctx, n); err != nil {
		m.restore(ctx, n, old)
		return node.NetworkInfo{}, err
	}
	m.lookups.add(p.spec.User, p.named()...)
	h := m.lookAt(ctx, n.id())
	defer h.close()
	return m.info(n, h), nil
}

// renewed is the network of that ID with a new plan.
func (m *Module) renewed(p plan, endpoints endpointSet, old *network) (*network, error) {
	n := &network{plan: p, state: state{Members: map[string]*member{}}}
	if old != nil {
		n.state = old.state
	} else {
		index, err := m.allocate()
		if err != nil {
			return nil, err
		}
		n.Index = index
	}
	for _, one := range p.peers {
		// One that has a name is where that led last, until it is looked up.
		if at, known := n.Endpoints[one.key.String()]; known && !endpoints[one.key.String()].IsValid() && isName(one.endpoint) {
			endpoints[one.key.String()] = at
		}
	}
	n.Endpoints = endpoints
	n.Spec = p.spec
	n.Spec.PrivateKey = ""
	return n, nil
}

// restore puts back what was there before a change that failed: the network
// as it was, or nothing.
func (m *Module) restore(ctx context.Context, n, old *network) {
	ctx = context.WithoutCancel(ctx)
	if old == nil {
		if err := m.takeDown(ctx, n); err != nil {
			m.cfg.Log.Error().Err(err).Str("id", n.Spec.Label).Str("step", "undo").Msg("a network that could not be made stays by half: it is tried again")
		}
		return
	}
	m.networks[old.id()] = old
	if err := m.ensure(ctx, old); err != nil {
		m.cfg.Log.Error().Err(err).Str("id", old.Spec.Label).Str("step", "undo").Msg("a network could not be put back as it was: it is tried again")
	}
}

// ensure brings n to what it shall be, whatever of it there is. The rules come
// before the links that they are for.
func (m *Module) ensure(ctx context.Context, n *network) error {
	if err := m.save(n); err != nil {
		return err
	}
	if _, err := m.ensureHost(); err != nil {
		return err
	}
	path := m.namespace(n.id())
	if _, err := netns.Inode(path); err != nil {
		if err := m.makeNamespace(path); err != nil {
			return err
		}
	}
	if err := m.guard(n, firewall.Network{}); err != nil {
		return err
	}
	outside, err := plumbing("", false)
	if err != nil {
		return err
	}
	defer outside.close()
	if _, err := m.plumb(n, false, outside); err != nil {
		return err
	}
	return m.raise(ctx, n)
}

// admit refuses what can't be beside what the node has.
func (m *Module) admit(p plan, old *network) error {
	for _, other := range m.networks {
		if other.id() != p.spec.ID && other.plan.spec.ListenPort == p.spec.ListenPort {
			return portTaken(p)
		}
	}
	if old == nil || old.plan.spec.ListenPort != p.spec.ListenPort {
		if !portFree(p.spec.ListenPort) {
			return portTaken(p)
		}
	}
	if old == nil || old.plan.subnet != p.subnet {
		// The node may have come into the range of one that is there: that one stays.
		if err := m.overlapsNode(p); err != nil {
			return err
		}
	}
	if old == nil {
		return nil
	}
	for _, one := range old.sorted() {
		for _, ip := range one.IPs {
			if !p.usable(ip) {
				return node.Errorf(node.Refused, "cannot change network %s: subnet is %s, must leave %s to its member %s", p.name(), p.subnet, ip, one.ID)
			}
		}
	}
	return nil
}

func portTaken(p plan) error {
	return node.Errorf(node.Refused, "cannot make network %s: wg_listen_port is %d, must be one that nothing on this node uses", p.name(), p.spec.ListenPort)
}

// portFree reports whether a UDP port can be had on all of the node's addresses.
func portFree(port uint16) bool {
	var open net.ListenConfig
	conn, err := open.ListenPacket(context.Background(), "udp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// remove deletes a network that nobody is in.
func (m *Module) remove(ctx context.Context, id string) error {
	done, err := m.begin()
	if err != nil {
		return err
	}
	defer done()
	n := m.networks[id]
	if n == nil {
		return node.Errorf(node.NotExist, "cannot delete network %s: there is none", shown(id))
	}
	if len(n.Members) > 0 {
		return node.Errorf(node.Busy, "cannot delete network %s: %s is in it", n.plan.name(), n.sorted()[0].ID)
	}
	return m.takeDown(ctx, n)
}

// takeDown removes all of a network, its label last.
func (m *Module) takeDown(ctx context.Context, n *network) error {
	if err := m.lower(ctx, n); err != nil {
		return err
	}
	out, err := plumbing("", false)
	if err != nil {
		return err
	}
	defer out.close()
	if err := out.remove(m.uplinkLink(n.Index)); err != nil {
		return err
	}
	if err := netns.Remove(m.namespace(n.id())); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	if err := os.RemoveAll(m.folder(n.id())); err != nil {
		return node.Errorf(node.Internal, "cannot remove the folder of network %s: %w", n.id(), err)
	}
	delete(m.networks, n.id())
	return nil
}
