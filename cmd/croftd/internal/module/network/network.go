// Package network describes the network module: users' private networks.
package network

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "network", Bus: node.NetworkModule, Summary: "users' private networks",
		Settings: settings(),
		Commands: []module.Command{{
			Name: "down", Usage: "remove the stopped node's networks and its wg carrier; the node makes them again when it starts",
			Run: func(ctx context.Context, o module.Order) error {
				return network.TakeDown(ctx, moduleConfig(o.Config, zerolog.Nop()))
			},
		}},
		Objects:     []zbus.ObjectID{bus.Object(node.NetworkObject, node.NetworkVersion), bus.Object(node.NetworkInspectorObject, node.NetworkInspectorVersion), bus.Object(node.TapObject, node.TapVersion), bus.Object(node.ChangesObject, node.ChangesVersion)},
		Constraints: func(f module.Facts) []module.Unmet { return f.Needs(module.Nftables) },
		Open:        open,
		Ask: func(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error {
			status, err := stubs.NewNetworksStub(client).Status(ctx)
			s.Network = &status
			return err
		},
		Changes: true,
		Kernel:  true,
		Parts:   []module.Part{{Of: &parts.Network{}, Every: time.Minute, List: list}},
		Table:   writeNetworks,
	}
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	dialer, err := h.NewDialer()
	if err != nil {
		return nil, err
	}
	cfg := moduleConfig(h.Config, h.Log)
	cfg.Endpoints = dialer
	m, err := network.Open(cfg)
	if err != nil {
		return nil, err
	}
	return &module.Instance{
		Features: network.Features(),
		Objects: []module.Object{
			module.Serves(node.NetworkObject, node.NetworkVersion, stubs.NetworksMethods(m.Networks())),
			module.Serves(node.NetworkInspectorObject, node.NetworkInspectorVersion, stubs.NetworkInspectorMethods(m.Inspector())),
			module.Serves(node.TapObject, node.TapVersion, stubs.TapsMethods(m.Taps())),
			module.Serves(node.ChangesObject, node.ChangesVersion, stubs.ChangesMethods(m.Changes())),
		},
		Close: func(context.Context) error { return m.Close() },
	}, nil
}

// moduleConfig is the module's configuration, without its dialer.
func moduleConfig(c config.Config, log zerolog.Logger) network.Config {
	out := network.Config{
		Dir: filepath.Join(c.RunDir, "network"), Uplinks: c.NetworkUplinks, Public: c.PublicIP6Range,
		Refuse: dial.NonPublic(), Open: firewall.Ports{First: c.ZDB.FirstPort, Last: c.ZDB.LastPort}, Own: func() ([]netip.Prefix, error) { return ownRanges(c.NetworkUplinks) }, Log: log,
		Rate:       network.Rate{Send: c.Containers.SendRate, Receive: c.Containers.ReceiveRate},
		DNSServers: c.DNSServers, Carrier: carrier.Config{RunDir: c.RunDir, Command: carrierCommand(c), Log: log},
	}
	for _, e := range c.AllowPrivate {
		if e.Prefix.IsValid() {
			out.Allow = append(out.Allow, firewall.Allowed{Prefix: e.Prefix, Port: e.Port})
		}
	}
	return out
}

// LinkPrefixes are the name prefixes of the module's links on the machine.
func LinkPrefixes(c config.Config) []string { return moduleConfig(c, zerolog.Nop()).LinkPrefixes() }

// carrierCommand is the command that starts this program as the wg carrier.
func carrierCommand(c config.Config) []string {
	return []string{"/proc/self/exe", "carrier", "wg", "--run-dir", c.RunDir, "--log-level", c.LogLevel}
}

// ownRanges are the ranges of the machine's own interfaces, without the uplinks of its users' networks.
func ownRanges(uplinks netip.Prefix) ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, errors.Wrap(err, "cannot read this machine's own addresses")
	}
	var out []netip.Prefix
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || uplinks.Contains(p.Addr()) || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		if p = p.Masked(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

func list(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	all, err := stubs.NewNetworksStub(client).List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Resource, 0, len(all))
	for _, n := range all {
		out = append(out, parts.NewNetwork(n))
	}
	return out, nil
}

// handshakeAge is the maximum age of a working tunnel's last handshake: with traffic, WireGuard makes
// one at least every three minutes.
const handshakeAge = 3 * time.Minute

// writeNetworks prints users' networks: their members, and how many peers answer.
func writeNetworks(row module.Row, s nodestatus.Status, now time.Time) {
	if len(s.Networks) == 0 {
		return
	}
	row("")
	row("NETWORK", "NAME", "SUBNET", "PORT", "MEMBERS", "PEERS HEARD", "TUNNEL", "DRIFT")
	for _, n := range s.Networks {
		heard := 0
		for _, p := range n.Peers {
			if now.Sub(time.Unix(p.Handshake, 0)) < handshakeAge {
				heard++
			}
		}
		row(n.Label, n.Name, n.Subnet, fmt.Sprint(n.ListenPort), fmt.Sprint(len(n.Members)), fmt.Sprintf("%d of %d", heard, len(n.Peers)), n.Backend, cmp.Or(n.Drift, "-"))
	}
}
