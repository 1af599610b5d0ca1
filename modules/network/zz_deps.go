// Package network is being built.
package network

import (
	_ "github.com/google/nftables"
	_ "github.com/miekg/dns"
	_ "github.com/vishvananda/netlink"
	_ "golang.zx2c4.com/wireguard/device"
	_ "golang.zx2c4.com/wireguard/tun"
	_ "golang.zx2c4.com/wireguard/wgctrl"
)
