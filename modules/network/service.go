package network

import (
	"context"
	"slices"
	"strings"

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
	h := s.m.look(s.m.ctx)
	defer h.close()
	for _, n := range s.m.networks {
		out = append(out, s.m.info(n, h))
	}
	slices.SortFunc(out, func(a, b node.NetworkInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Join implements node.Networks.
func (s service) Join(spec node.MemberSpec) (node.Member, error) {
	a, err := readAsked(asked{
		network: spec.Network, id: spec.Member, name: spec.Name, public: spec.PublicIP6, namespace: spec.Namespace, pid: spec.PID,
		claim: node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled},
	}, spec.IPs)
	if err != nil {
		return node.Member{}, err
	}
	n, one, err := s.m.join(s.m.ctx, a)
	if err != nil {
		return node.Member{}, err
	}
	return n.memberInfo(one), nil
}

// Leave implements node.Networks.
func (s service) Leave(network, member string) error {
	return s.m.leave(s.m.ctx, network, member, false)
}

// Subnet implements node.Networks.
func (s service) Subnet(id string) (string, error) {
	p, err := s.m.planOf(id)
	return p.subnet.String(), err
}

// Gateway implements node.Networks.
func (s service) Gateway(id string) (string, error) {
	p, err := s.m.planOf(id)
	return p.gateway.String(), err
}

func (m *Module) planOf(id string) (plan, error) {
	done, err := m.begin()
	if err != nil {
		return plan{}, err
	}
	defer done()
	n := m.networks[id]
	if n == nil {
		return plan{}, node.Errorf(node.NotExist, "cannot look at network %s: there is none", shown(id))
	}
	return n.plan, nil
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
	out := node.NetworkStatus{Networks: uint64(len(m.networks)), Why: m.tunnels.why, Drift: m.host.lacks}
	if m.cfg.Public.IsValid() {
		out.PublicRange = m.cfg.Public.String()
	}
	for _, n := range m.networks {
		out.Members += uint64(len(n.Members))
	}
	if m.tunnels.backend != nil {
		out.Backend = m.tunnels.backend.Name()
	}
	if len(m.networks) == 0 {
		return out, nil
	}
	drift, err := m.checkHost()
	out.Drift = joined(out.Drift, drift, errorText(err))
	if m.tunnels.carrier == nil {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	info, err := m.tunnels.carrier.Info(ctx)
	if err != nil {
		out.Drift = joined(out.Drift, err.Error())
		return out, nil
	}
	out.Carrier, out.CarrierMemory = uint64(info.PID), info.Memory
	return out, nil
}

// joined puts what differs into one line.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// taps is the module as node.Taps.
type taps struct{ m *Module }

// Setup implements node.Taps.
func (t taps) Setup(spec node.TapSpec) (node.Tap, error) {
	var ips []string
	if spec.IP != "" {
		ips = []string{spec.IP}
	}
	a, err := readAsked(asked{network: spec.Network, id: spec.VM, name: spec.Name, tap: true}, ips)
	if err != nil {
		return node.Tap{}, err
	}
	if other := t.m.tapOf(spec.VM); other != nil && other.id() != spec.Network {
		return node.Tap{}, node.Errorf(node.Exist, "cannot set up a tap of %s in network %s: it has one in network %s", spec.VM, shown(spec.Network), other.id())
	}
	n, one, err := t.m.join(t.m.ctx, a)
	if err != nil {
		return node.Tap{}, err
	}
	return t.m.tapInfo(n, one), nil
}

// Remove implements node.Taps.
func (t taps) Remove(vm string) error {
	n := t.m.tapOf(vm)
	if n == nil {
		return node.Errorf(node.NotExist, "cannot remove the tap of %s: there is none", shown(vm))
	}
	return t.m.leave(t.m.ctx, n.id(), vm, true)
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
		for _, one := range n.sorted() {
			if one.Tap {
				out = append(out, t.m.tapInfo(n, one))
			}
		}
	}
	slices.SortFunc(out, func(a, b node.Tap) int { return strings.Compare(a.VM, b.VM) })
	return out, nil
}

// tapOf is the network that a VM's tap is in, nil for none.
func (m *Module) tapOf(vm string) *network {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.networks {
		if one := n.Members[vm]; one != nil && one.Tap {
			return n
		}
	}
	return nil
}

func (m *Module) tapInfo(n *network, one *member) node.Tap {
	return node.Tap{
		VM: one.ID, Network: n.id(), Device: one.port(), MAC: n.mac(one).String(), Namespace: m.namespace(n.id()),
		IPv4: one.IPs[0].String(), IPv6: n.address6(one).String(), Gateway: n.plan.gateway.String(), Gateway6: n.plan.gateway6.String(),
	}
}
