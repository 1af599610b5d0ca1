package fakenode

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Taps is the taps of a node's Networks. It implements node.Taps.
type Taps struct{ *Networks }

var _ node.Taps = Taps{}

// Setup implements node.Taps.
func (t Taps) Setup(spec node.TapSpec) (node.Tap, error) {
	return answer(t.calls, "Taps.Setup", spec.VM, func() (node.Tap, error) {
		ask := node.MemberSpec{Network: spec.Network, Member: spec.VM, Name: spec.Name, Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		if spec.IP != "" {
			ask.IPs = []string{spec.IP}
		}
		ips, err := readMember(ask)
		if err != nil {
			return node.Tap{}, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if one, _, ok := t.find(spec.VM); ok && one.spec.ID != spec.Network {
			return node.Tap{}, node.Errorf(node.Exist, "cannot set up a tap of %s: it has one in network %s", spec.VM, one.spec.ID)
		}
		one, err := t.Networks.find("find network", spec.Network)
		if err != nil {
			return node.Tap{}, err
		}
		m, err := t.place(one, member{spec: ask, ips: ips, tap: true})
		if err != nil {
			return node.Tap{}, err
		}
		return tap(one, m), nil
	})
}

// Remove implements node.Taps.
func (t Taps) Remove(vm string) error {
	return carryOut(t.calls, "Taps.Remove", vm, func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		one, i, ok := t.find(vm)
		if !ok {
			return node.Errorf(node.NotExist, "cannot remove the tap of %.80q: there is none", vm)
		}
		one.members = slices.Delete(one.members, i, i+1)
		return nil
	})
}

// List implements node.Taps.
func (t Taps) List() ([]node.Tap, error) {
	return answer(t.calls, "Taps.List", "", func() ([]node.Tap, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		out := []node.Tap{}
		for _, one := range t.have {
			for _, m := range one.members {
				if m.tap {
					out = append(out, tap(one, m))
				}
			}
		}
		slices.SortFunc(out, func(a, b node.Tap) int { return strings.Compare(a.VM, b.VM) })
		return out, nil
	})
}

// SetDrift makes a VM's tap differ from how it was made, until Setup repairs it.
func (t Taps) SetDrift(vm, drift string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, i, ok := t.find(vm); ok {
		one.members[i].drift = drift
	}
}

// find returns a VM's tap and its network. The caller holds mu.
func (t Taps) find(vm string) (*network, int, bool) {
	for _, one := range t.have {
		if i := one.index(vm); i >= 0 && one.members[i].tap {
			return one, i, true
		}
	}
	return nil, 0, false
}

func tap(n *network, m member) node.Tap {
	device, sum := sha256.Sum256([]byte(n.spec.ID+" "+m.spec.Member)), sha256.Sum256([]byte(n.spec.ID+" "+m.ips[0].String()))
	at := func(ip netip.Addr) (string, string) { return ip.String(), n.address6(ip) }
	out := node.Tap{
		VM: m.spec.Member, Network: n.spec.ID, Name: m.spec.Name, Hash: m.spec.Hash, Drift: m.drift, Namespace: "/run/networks/" + n.spec.ID,
		Device: fmt.Sprintf("tap%x", device[:4]), MAC: fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4]),
	}
	out.IPv4, out.IPv6 = at(m.ips[0])
	out.Gateway, out.Gateway6 = at(n.gateway)
	return out
}
