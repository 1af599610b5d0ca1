package network

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/kernel"
)

// Features are what networks need of the kernel.
func Features() []kernel.Feature {
	const none = "no network can be made"
	quick := func(try func() error) func(context.Context) error {
		return func(context.Context) error { return try() }
	}
	return []kernel.Feature{
		{Name: "veth", Effect: none, Try: quick(links.TryVeth)},
		{Name: "bridge", Effect: none, Try: quick(links.TryBridge)},
		{Name: "nftables", Effect: none + ": nothing would keep users apart", Try: quick(firewall.Try)},
		{Name: "IPv6", Effect: none + ": each member has an IPv6 address", Try: quick(links.TryIPv6)},
		{Name: "IPv6 of the machine", Effect: "the node and its networks reach nobody by IPv6, and nobody reaches public_ip6", Degraded: true, Try: quick(links.TryNodeIPv6)},
		{Name: "tap", Effect: "no virtual machine has a network, and tunnels need the kernel's WireGuard", Try: quick(links.TryTap)},
		{Name: "WireGuard", Effect: "tunnels run in a process of croft's own, which is slower", Degraded: true, Try: func(ctx context.Context) error {
			if there, why := wireguard.Detect(ctx); !there {
				return errors.New(why)
			}
			return nil
		}},
	}
}
