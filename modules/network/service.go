package network

import (
	"context"
	"slices"
	"strings"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/tunnel"
	"github.com/croft-edge/croft/pkg/node"
)

// service is the module as node.Networks. Its calls are bounded by the bus; a
// call that has begun is finished.
type service struct{ m *Module }

// Create implements node.Networks.
func (s service) Create(spec node.NetworkSpec) (node.NetworkInfo, error) {
	return s.m.create(s.m.ctx, spec)
}

// Delete implements node.Networks.
func (s service) Delete(id string) error { return s.m.remove(s.m.ctx, id) }

// List implements node.Networks.
func (s service) List() ([]node.NetworkInfo, error) {
	done, err := s.m.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]node.NetworkInfo, 0, len(s.m.networks))
	if len(s.m.networks) == 0 {
		return out, nil
	}
	s.m.hearing.CatchUp()
	v := look(func() tunnel.Observation { return s.m.builder.tunnels.Observe(s.m.ctx) })
	defer v.close()
	for _, n := range s.m.networks {
		out = append(out, s.m.builder.info(n, v))
	}
	slices.SortFunc(out, func(a, b node.NetworkInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Join implements node.Networks.
func (s service) Join(spec node.MemberSpec) (node.Member, error) {
	r, err := readJoinRequest(resource.JoinRequest{
		Network: spec.Network, ID: spec.Member, Name: spec.Name, Public: spec.PublicIP6, Namespace: spec.Namespace, PID: spec.PID,
		Claim: node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled},
	}, spec.IPs)
	if err != nil {
		return node.Member{}, err
	}
	n, one, err := s.m.join(s.m.ctx, r)
	if err != nil {
		return node.Member{}, err
	}
	return memberInfo(n, one), nil
}

// Leave implements node.Networks.
func (s service) Leave(network, member string) error {
	return s.m.leave(s.m.ctx, network, member, false)
}

// Subnet implements node.Networks.
func (s service) Subnet(id string) (string, error) {
	p, err := s.m.planOf(id)
	return p.Subnet.String(), err
}

// Gateway implements node.Networks.
func (s service) Gateway(id string) (string, error) {
	p, err := s.m.planOf(id)
	return p.Gateway.String(), err
}

func (m *Module) planOf(id string) (resource.Plan, error) {
	done, err := m.begin()
	if err != nil {
		return resource.Plan{}, err
	}
	defer done()
	n := m.networks[id]
	if n == nil {
		return resource.Plan{}, node.Errorf(node.NotExist, "cannot look at network %s: there is none", resource.Bounded(id))
	}
	return n.Plan, nil
}

// Status implements node.Networks.
func (s service) Status() (node.NetworkStatus, error) {
	done, err := s.m.begin()
	if err != nil {
		return node.NetworkStatus{}, err
	}
	defer done()
	return s.m.status(s.m.ctx)
}

func (m *Module) status(ctx context.Context) (node.NetworkStatus, error) {
	tunnels := m.builder.tunnels
	out := node.NetworkStatus{Networks: uint64(len(m.networks)), Backend: tunnels.Backend(), Why: tunnels.Why(), Drift: m.unmet}
	if m.cfg.Public.IsValid() {
		out.PublicRange = m.cfg.Public.String()
	}
	for _, n := range m.networks {
		out.Members += uint64(len(n.Members))
	}
	if len(m.networks) == 0 {
		return out, nil
	}
	drift, err := m.builder.host.Check()
	out.Drift = joined(out.Drift, drift, errorText(err))
	if !tunnels.Connected() {
		return out, nil
	}
	info, err := tunnels.Carrier(ctx)
	if err != nil {
		out.Drift = joined(out.Drift, err.Error())
		return out, nil
	}
	out.Carrier, out.CarrierMemory = uint64(info.PID), info.Memory
	return out, nil
}

// taps is the module as node.Taps.
type taps struct{ m *Module }

// Setup implements node.Taps.
func (t taps) Setup(spec node.TapSpec) (node.Tap, error) {
	var ips []string
	if spec.IP != "" {
		ips = []string{spec.IP}
	}
	r, err := readJoinRequest(resource.JoinRequest{
		Network: spec.Network, ID: spec.VM, Name: spec.Name, Tap: true,
		Claim: node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled},
	}, ips)
	if err != nil {
		return node.Tap{}, err
	}
	if other := t.m.tapOf(spec.VM); other != nil && other.ID() != spec.Network {
		return node.Tap{}, node.Errorf(node.Exist, "cannot set up a tap of %s in network %s: it has one in network %s", spec.VM, resource.Bounded(spec.Network), other.ID())
	}
	n, one, err := t.m.join(t.m.ctx, r)
	if err != nil {
		return node.Tap{}, err
	}
	return tapInfo(n, one, ""), nil
}

// Remove implements node.Taps.
func (t taps) Remove(vm string) error {
	n := t.m.tapOf(vm)
	if n == nil {
		return node.Errorf(node.NotExist, "cannot remove the tap of %s: there is none", resource.Bounded(vm))
	}
	return t.m.leave(t.m.ctx, n.ID(), vm, true)
}

// List implements node.Taps.
func (t taps) List() ([]node.Tap, error) {
	done, err := t.m.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	out := []node.Tap{}
	for _, n := range t.m.networks {
		for _, one := range n.Sorted() {
			if one.Tap {
				drift, err := t.m.builder.wiring.PortDrift(n, one)
				out = append(out, tapInfo(n, one, joined(drift, errorText(err))))
			}
		}
	}
	slices.SortFunc(out, func(a, b node.Tap) int { return strings.Compare(a.VM, b.VM) })
	return out, nil
}

// tapOf is the network of a VM's tap, nil for none.
func (m *Module) tapOf(vm string) *resource.Network {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.networks {
		if one := n.Members[vm]; one != nil && one.Tap {
			return n
		}
	}
	return nil
}
