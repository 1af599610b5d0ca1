package network

import (
	"context"
	"net"
	"reflect"
	"strconv"

	"github.com/croft-edge/croft/modules/network/endpoints"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/tunnel"
	"github.com/croft-edge/croft/pkg/node"
)

// create makes a network, or changes the one of that ID in place. All reasons to
// refuse are found before anything is changed.
func (m *Module) create(ctx context.Context, spec node.NetworkSpec) (node.NetworkInfo, error) {
	p, err := resource.Read(spec)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	literals, err := endpoints.Literals(m.cfg.Endpoints, p)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	done, err := m.begin()
	if err != nil {
		return node.NetworkInfo{}, err
	}
	defer done()
	old := m.networks[p.Spec.ID]
	if err := m.admit(p, old); err != nil {
		return node.NetworkInfo{}, err
	}
	n, err := m.renewed(p, literals, old)
	if err != nil {
		return node.NetworkInfo{}, err
	}
	m.networks[n.ID()] = n
	if err := m.builder.ensure(ctx, n); err != nil {
		m.restore(ctx, n, old)
		if old != nil && node.KindOf(err) == node.Exist && !reflect.DeepEqual(old.Plan, n.Plan) {
			return node.NetworkInfo{}, node.WithKind(node.Busy, err) // a change waits; it doesn't fail for what was in order before
		}
		return node.NetworkInfo{}, err
	}
	m.lookups.Add(p)
	v := look(func() tunnel.Observation { return m.builder.tunnels.ObserveOne(ctx, n.ID()) })
	defer v.close()
	return m.builder.info(n, v), nil
}

// renewed is the network of that ID with a new plan.
func (m *Module) renewed(p resource.Plan, literals resource.Endpoints, old *resource.Network) (*resource.Network, error) {
	if old == nil {
		if err := m.builder.store.Free(p.Spec.ID); err != nil {
			return nil, err
		}
		taken := map[int]bool{}
		for _, n := range m.networks {
			taken[n.Index] = true
		}
		index, err := m.builder.wiring.AllocateUplink(taken)
		if err != nil {
			return nil, err
		}
		old = &resource.Network{
			Namespace: m.builder.store.Namespace(p.Spec.ID), State: resource.State{Index: index, Members: map[string]*resource.Member{}},
		}
	}
	return old.Renew(p, literals, endpoints.IsName), nil
}

// restore puts back the state before a change that failed: the network as it was, or
// nothing.
func (m *Module) restore(ctx context.Context, n, old *resource.Network) {
	ctx = context.WithoutCancel(ctx)
	if old == nil {
		if err := m.builder.takeDown(ctx, n); err != nil {
			m.cfg.Log.Error().Str("id", n.Spec.Label).Str("type", "network").Str("step", "undo").Err(err).Msg("cannot remove a half-made network: tried again")
			return
		}
		delete(m.networks, n.ID())
		return
	}
	m.networks[old.ID()] = old
	if err := m.builder.ensure(ctx, old); err != nil {
		m.cfg.Log.Error().Str("id", old.Spec.Label).Str("type", "network").Str("step", "undo").Err(err).Msg("cannot restore a network after a failed change: tried again")
	}
}

// admit refuses a plan that conflicts with the node, its other networks, or members.
func (m *Module) admit(p resource.Plan, old *resource.Network) error {
	for _, other := range m.networks {
		if other.ID() != p.Spec.ID && other.Plan.Spec.ListenPort == p.Spec.ListenPort {
			return portTaken(p)
		}
	}
	if old == nil || old.Plan.Spec.ListenPort != p.Spec.ListenPort {
		if !portFree(p.Spec.ListenPort) {
			return portTaken(p)
		}
	}
	if old == nil || old.Plan.Subnet != p.Subnet {
		// The node may have come into the range of an existing network: that one stays.
		if err := m.cfg.overlaps(p); err != nil {
			return err
		}
	}
	if old == nil {
		return nil
	}
	for _, one := range old.Sorted() {
		for _, ip := range one.IPs {
			if !p.Usable(ip) {
				return node.Errorf(node.Refused, "cannot change network %s: subnet is %s, must leave %s to its member %s", p.Name(), p.Subnet, ip, one.ID)
			}
		}
	}
	return nil
}

// overlaps refuses a subnet that is the node's own, or the uplinks'. It doesn't tell
// which of the node's: that isn't a tenant's business.
func (c Config) overlaps(p resource.Plan) error {
	own, err := c.Own()
	if err != nil {
		return node.Errorf(node.Transient, "cannot make network %s: the node's own ranges aren't known: %w", p.Name(), err)
	}
	for _, o := range append(own, c.Uplinks) {
		if o.Overlaps(p.Subnet) {
			c.Log.Warn().Str("id", p.Spec.Label).Str("type", "network").Str("step", "create").Stringer("subnet", p.Subnet).Stringer("range", o).
				Msg("refused: its subnet overlaps a range of the node's")
			return node.Errorf(node.Refused, "cannot make network %s: subnet is %s, must be apart from the ranges that the node itself uses", p.Name(), p.Subnet)
		}
	}
	return nil
}

func portTaken(p resource.Plan) error {
	return node.Errorf(node.Refused, "cannot make network %s: wg_listen_port is %d, must be one that nothing on this node uses", p.Name(), p.Spec.ListenPort)
}

// portFree reports whether a UDP port is free on all of the node's addresses.
func portFree(port uint16) bool {
	// A child that is forked meanwhile would have the port until its exec, when it is needed.
	defer links.HoldForks()()
	var open net.ListenConfig
	conn, err := open.ListenPacket(context.Background(), "udp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// remove deletes a network that has no members.
func (m *Module) remove(ctx context.Context, id string) error {
	done, err := m.begin()
	if err != nil {
		return err
	}
	defer done()
	n := m.networks[id]
	if n == nil {
		return node.Errorf(node.NotExist, "cannot delete network %s: there is none", resource.Bounded(id))
	}
	if len(n.Members) > 0 {
		return node.Errorf(node.Busy, "cannot delete network %s: %s is in it", n.Plan.Name(), n.Sorted()[0].ID)
	}
	if err := m.builder.takeDown(ctx, n); err != nil {
		return err
	}
	delete(m.networks, id)
	return nil
}
