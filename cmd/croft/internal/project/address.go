package project

import (
	"fmt"
	"net/netip"

	"github.com/croft-edge/croft/pkg/workload"
)

// membership is a workload's place in a network.
type membership struct {
	// id is the network's ID in the data; it is the network of the workload target,
	// or one outside of the file.
	id     string
	target *Workload
	ips    []memberAddress
}

// memberAddress is an address that a member asks for.
type memberAddress struct {
	text string
	place
}

// addresses checks the addresses that members ask for, where the file says enough:
// a node refuses wrong ones too, but only once all else is deployed.
func addresses(all []*Workload) error {
	taken := map[string]string{}
	for _, w := range all {
		m := w.membership(all)
		subnet := m.subnet(w.Node)
		for _, one := range m.ips {
			ip, err := netip.ParseAddr(one.text)
			if err != nil {
				continue // said elsewhere
			}
			ip = ip.Unmap()
			if err := one.within(ip, subnet); err != nil {
				return err
			}
			key := m.id + "\x00" + ip.String()
			if other := taken[key]; other != "" && other != w.Name {
				return at(one.line, one.field, "is %q, which %q asks for too", one.text, other)
			}
			taken[key] = w.Name
		}
	}
	return nil
}

// membership reads a workload's data; that of other types is none.
func (w *Workload) membership(all []*Workload) membership {
	var m membership
	switch w.Type {
	case workload.TypeContainer:
		network, _ := w.body.data["network"].(map[string]any)
		m.id, _ = network["network_id"].(string)
		ips, _ := network["ips"].([]any)
		for i, ip := range ips {
			m.add(w, fmt.Sprintf("network.ips[%d]", i), ip)
		}
	case workload.TypeKubernetes:
		m.id, _ = w.body.data["network_id"].(string)
		m.add(w, "ip", w.body.data["ip"])
	}
	for _, other := range all {
		if m.id != "" && other.Type == workload.TypeNetwork && other.Network == m.id && other.Node == w.Node {
			m.target = other
		}
	}
	return m
}

func (m *membership) add(w *Workload, path string, value any) {
	if text, ok := value.(string); ok {
		m.ips = append(m.ips, memberAddress{text, w.body.places[path]})
	}
}

// subnet is the network's part on a node, as far as the file tells.
func (m membership) subnet(node string) netip.Prefix {
	if m.target == nil {
		return netip.Prefix{}
	}
	resources, _ := m.target.body.data["net_resources"].([]any)
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		if resource["node_id"] != any(node) {
			continue
		}
		text, _ := resource["subnet"].(string)
		if subnet, err := netip.ParsePrefix(text); err == nil && subnet.Addr().Is4() {
			return subnet.Masked()
		}
	}
	return netip.Prefix{}
}

// within checks that an address is one for members of a subnet, if that is known.
func (a memberAddress) within(ip netip.Addr, subnet netip.Prefix) error {
	switch {
	case !ip.Is4():
		return at(a.line, a.field, "is %q, must be an IPv4 address: the IPv6 one follows from it", a.text)
	case !subnet.IsValid():
		return nil
	case !subnet.Contains(ip):
		return at(a.line, a.field, "is %q, must be in %s, the network's part on this node", a.text, subnet)
	case ip == subnet.Addr() || !subnet.Contains(ip.Next()):
		return at(a.line, a.field, "is %q, must be neither the first nor the last address of %s", a.text, subnet)
	case ip == subnet.Addr().Next():
		return at(a.line, a.field, "is %q, which is the gateway's", a.text)
	}
	return nil
}
