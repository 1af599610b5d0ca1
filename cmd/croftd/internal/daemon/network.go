package daemon

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// startNetwork serves users' networks on the bus.
func (d *daemon) startNetwork(g *supervise.Group) error {
	dialer, err := d.newDialer()
	if err != nil {
		return err
	}
	cfg := networkConfig(d.Config.Config, d.Log)
	cfg.Endpoints = dialer
	m, err := network.Open(cfg)
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.NetworkModule, d.options)
	if err == nil {
		err = bus.Register(server, bus.Object(node.NetworkObject, node.NetworkVersion), m.Networks())
	}
	if err == nil {
		err = bus.Register(server, bus.Object(node.TapObject, node.TapVersion), m.Taps())
	}
	if err != nil {
		_ = m.Close()
		return err
	}
	g.Start(supervise.Part{Name: "network", Within: moduleStop, Run: func(ctx context.Context) error {
		err := server.Run(ctx)
		if closeErr := m.Close(); err == nil {
			err = closeErr
		}
		return err
	}})
	return nil
}

// networkConfig is what the network module is opened with, but for its dialer.
func networkConfig(c config.Config, log zerolog.Logger) network.Config {
	out := network.Config{
		Dir: filepath.Join(c.RunDir, "network"), Uplinks: c.NetworkUplinks, Public: c.PublicIP6Range,
		Refuse: dial.NonPublic(), Open: firewall.Ports{First: c.ZDB.FirstPort, Last: c.ZDB.LastPort}, Own: func() ([]netip.Prefix, error) { return ownNetworks(c.NetworkUplinks) }, Log: log,
		Rate:    network.Rate{Send: c.Containers.SendRate, Receive: c.Containers.ReceiveRate},
		Carrier: carrier.Config{RunDir: c.RunDir, Command: carrierCommand(c), Log: log},
	}
	for _, e := range c.AllowPrivate {
		if e.Prefix.IsValid() {
			out.Allow = append(out.Allow, firewall.Allowed{Prefix: e.Prefix, Port: e.Port})
		}
	}
	return out
}

// carrierCommand starts this very program as the wg carrier.
func carrierCommand(c config.Config) []string {
	command := []string{"/proc/self/exe", "carrier", "wg", "--run-dir", c.RunDir, "--log-level", c.LogLevel}
	for _, s := range c.DNSServers {
		command = append(command, "--dns-servers", s.String())
	}
	return command
}

// ownNetworks are the ranges that the node's own interfaces are in, but for
// the ends of its users' networks.
func ownNetworks(uplinks netip.Prefix) ([]netip.Prefix, error) {
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

// askNetworks asks the network module how it is and what it has.
func (m modules) askNetworks(ctx context.Context) ([]node.NetworkInfo, node.NetworkStatus, error) {
	status, err := m.networks.Status(ctx)
	if err != nil || status.Networks == 0 {
		return nil, status, err
	}
	list, err := m.networks.List(ctx)
	if err != nil {
		// It has answered before: that it needs long to look at many is no silence.
		status.Drift = strings.TrimLeft(status.Drift+"; "+err.Error(), "; ")
	}
	return list, status, nil
}

// TakeDownNetworks removes the networks of a stopped node.
func TakeDownNetworks(ctx context.Context, c config.Config) error {
	return network.TakeDown(ctx, networkConfig(c, zerolog.Nop()))
}

// ports are the UDP ports that users' networks have on this node: others who
// make a network choose another.
func (b *brain) ports() []uint {
	records, err := b.store.List()
	if err != nil {
		return nil
	}
	var out []uint
	for _, rec := range records {
		if rec.Tombstone() || rec.Reservation.Type != workload.TypeNetwork {
			continue
		}
		data, err := workload.DataOf[workload.Network](rec.Reservation)
		if err != nil {
			continue
		}
		for _, res := range data.Resources {
			if port := uint(res.ListenPort); res.NodeID == b.nodeID && !slices.Contains(out, port) {
				out = append(out, port)
			}
		}
	}
	slices.Sort(out)
	return out
}
