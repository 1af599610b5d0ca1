package nodetest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/wireguard"
)

// WGQuick does in a namespace what `wg-quick up` does with a file: a tunnel with its addresses and
// routes. As the kernel's WireGuard may be missing, one of croft's carriers holds it. It is removed
// when the test ends.
func (w *World) WGQuick(host *netlab.Namespace, name, file string) {
	w.Helper()
	config, addresses := w.readWGQuick(file)
	config.Namespace = host.Path()
	run := w.Path(name)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := carrier.Ensure(ctx, carrier.Config{
		RunDir: run, Command: []string{"nsenter", "--net=" + host.Path(), w.Croftd, "carrier", "wg", "--run-dir", run, "--same-cgroup"},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			w.Error(err)
		}
		client.Close()
	})
	if err := client.SetDevice(ctx, name, config); err != nil {
		w.Fatal(err)
	}
	for _, a := range addresses {
		host.Addr(config.Name, a.String())
	}
	for _, p := range config.Peers {
		for _, a := range p.AllowedIPs {
			route := &netlink.Route{LinkIndex: host.Link(config.Name).Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}
			if a.Addr().Is6() {
				route.Scope = netlink.SCOPE_UNIVERSE
			}
			if err := host.Netlink().RouteReplace(route); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// readWGQuick reads a wg-quick file with one peer.
func (w *World) readWGQuick(file string) (config wireguard.Config, addresses []netip.Prefix) {
	w.Helper()
	config.Name = "wg0"
	peer := wireguard.Peer{}
	var err error
	for line := range strings.SplitSeq(file, "\n") {
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		switch key {
		case "PrivateKey":
			config.PrivateKey, err = wireguard.ParseKey(value)
		case "PublicKey":
			peer.PublicKey, err = wireguard.ParseKey(value)
		case "Address":
			addresses, err = prefixes(value)
		case "AllowedIPs":
			peer.AllowedIPs, err = prefixes(value)
		case "Endpoint":
			peer.Endpoint, err = netip.ParseAddrPort(value)
		case "PersistentKeepalive":
			peer.Keepalive, err = time.ParseDuration(value + "s")
		default:
			w.Fatalf("a wg-quick file has %q", line)
		}
		if err != nil {
			w.Fatalf("%s: %v", line, err)
		}
	}
	config.Peers = []wireguard.Peer{peer}
	return config, addresses
}

func prefixes(list string) (out []netip.Prefix, err error) {
	for text := range strings.SplitSeq(list, ",") {
		p, perr := netip.ParsePrefix(strings.TrimSpace(text))
		if perr != nil {
			return nil, perr
		}
		out = append(out, p)
	}
	return out, nil
}
