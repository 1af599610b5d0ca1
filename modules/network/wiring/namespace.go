package wiring

import (
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// MakeNamespace makes a missing namespace of n, and gives it the settings of a router.
func MakeNamespace(n *resource.Network) error {
	if _, err := netns.Inode(n.Namespace); err == nil {
		return netns.Do(n.Namespace, settle)
	}
	if err := netns.Make(n.Namespace); err != nil {
		return err
	}
	return netns.Do(n.Namespace, func() error {
		if err := settle(); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
}

// SettingsDrift says which settings of n's namespace differ from a router's; the kernel tells nobody when one changes.
// One that is gone has none.
func SettingsDrift(n *resource.Network) (string, error) {
	var others []setting
	err := netns.Do(n.Namespace, func() (err error) {
		others, err = unsettled()
		return err
	})
	if node.KindOf(err) == node.NotExist {
		return "", nil
	}
	var differences []string
	for _, one := range others {
		differences = append(differences, "setting "+one.name+" isn't "+one.value)
	}
	return strings.Join(differences, ", "), err
}

// settle sets the settings of the thread's namespace that differ.
func settle() error {
	others, err := unsettled()
	if err != nil {
		return err
	}
	for _, one := range others {
		if err := netns.Sysctl(one.name, one.value); err != nil {
			return err
		}
	}
	return nil
}

// unsettled are the settings of the thread's namespace that differ.
func unsettled() (others []setting, err error) {
	for _, one := range settings() {
		is, err := netns.SysctlIs(one.name, one.value)
		if err != nil {
			return nil, err
		}
		if !is {
			others = append(others, one)
		}
	}
	return others, nil
}

// setting is one of the kernel's, and its value.
type setting struct{ name, value string }

// settings are the kernel's of a network's namespace: a router that learns
// nothing from its neighbours, and whose bridge doesn't ask the router's rules.
func settings() [14]setting {
	return [...]setting{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
		{"net/ipv4/conf/all/accept_redirects", "0"},
		{"net/ipv4/conf/default/accept_redirects", "0"},
		{"net/ipv4/conf/all/accept_source_route", "0"},
		{"net/ipv6/conf/all/forwarding", "1"},
		{"net/ipv6/conf/all/accept_ra", "0"},
		{"net/ipv6/conf/default/accept_ra", "0"},
		{"net/ipv6/conf/all/accept_redirects", "0"},
		{"net/ipv6/conf/default/accept_redirects", "0"},
		{"net/bridge/bridge-nf-call-iptables", "0"},
		{"net/bridge/bridge-nf-call-ip6tables", "0"},
		{"net/bridge/bridge-nf-call-arptables", "0"},
	}
}
