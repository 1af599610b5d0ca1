package main

import (
	"context"
	"os"
	"strings"

	"github.com/croft-edge/croft/bootstrap/node/init/network"
)

const resolvFile = "/run/resolv.conf"

// nameDigits is how much of the node's ID is in the name that DHCP servers get.
const nameDigits = 8

// hostname is the machine's name for DHCP servers; empty while the node's ID isn't known.
func (m *machine) hostname() string {
	id := m.node.Node().ID
	if len(id) < nameDigits {
		return ""
	}
	return "croft-" + strings.ToLower(id[:nameDigits])
}

// startNetwork brings the machine's own network up, and keeps it up. It returns nil if that can't be.
func (m *machine) startNetwork(ctx context.Context) *network.Network {
	n := m.settings.Node
	cfg := network.Config{
		Interfaces: n.Interfaces, DHCP4: true, DHCP6: true, ResolvConf: resolvFile, Hostname: m.hostname, Changed: m.networks.tell, Log: m.logger(),
	}
	if len(n.Addresses) > 0 || len(n.DNS) > 0 {
		cfg.Static = []network.Static{{Addresses: n.Addresses, Gateways: n.Gateways, DNS: n.DNS}}
	}
	if _, err := os.Stat(resolvFile); err != nil {
		_ = os.WriteFile(resolvFile, nil, 0o644) // programs want the file also while there are no name servers
	}
	net, err := network.New(cfg)
	if err != nil {
		m.wrong("network", err)
		return nil
	}
	m.keep(ctx, "network", net.Run)
	return net
}
