package main

import (
	"context"
	"os"

	"github.com/croft-edge/croft/bootstrap/node/init/network"
)

const resolvFile = "/run/resolv.conf"

// startNetwork brings the machine's own network up, and keeps it up. It returns nil if that can't be.
func (m *machine) startNetwork(ctx context.Context) *network.Network {
	n := m.settings.Node
	cfg := network.Config{
		Interfaces: n.Interfaces, DHCP4: true, DHCP6: true, ResolvConf: resolvFile, Changed: m.networks.tell, Log: m.logger(),
	}
	if len(n.Addresses) > 0 || len(n.DNS) > 0 {
		cfg.Static = []network.Static{{Addresses: n.Addresses, Gateways: n.Gateways, DNS: n.DNS}}
	}
	_ = os.WriteFile(resolvFile, nil, 0o644) // without name servers there is none; programs want the file all the same
	net, err := network.New(cfg)
	if err != nil {
		m.wrong("network", err)
		return nil
	}
	m.keep(ctx, "network", net.Run)
	return net
}
