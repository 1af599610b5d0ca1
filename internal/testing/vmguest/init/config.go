package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// configured is what the config disk has.
type configured struct {
	config nocloud.Config
	files  map[string][]byte
	err    error
}

// readConfig reads the config disk.
func readConfig(device string) configured {
	config, files, err := guest.ReadConfig(device, "/config")
	return configured{config: config, files: files, err: err}
}

// sums are the files' SHA-256.
func (c configured) sums() map[string]string {
	out := map[string]string{}
	for name, content := range c.files {
		out[name] = sum(content)
	}
	return out
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// applyConfig names the machine and sets up its network, as far as it can.
func (g *guestMachine) applyConfig() {
	name := "guest"
	if g.config.err != nil {
		say("config: %v", g.config.err)
	} else {
		name = g.config.config.Hostname
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		say("cannot set the hostname: %v", err)
	}
	say("hostname %s", name)
	if err := guest.LinkUp("lo"); err != nil {
		say("cannot set up lo: %v", err)
	}
	for _, n := range g.config.config.Interfaces {
		if err := applyInterface(n); err != nil {
			g.config.err = err
			say("cannot set up interface %s: %v", n.MAC, err)
		}
	}
}

func applyInterface(n nocloud.Interface) error {
	name, err := guest.Configure(n)
	if err != nil {
		return err
	}
	for _, p := range n.Addresses {
		say("address %s on %s", p, name)
	}
	return guest.WriteResolver(n)
}

// interfaces are those but for the loopback, as the kernel has them.
func interfaces() ([]report.Interface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	var out []report.Interface
	for _, link := range links {
		attributes := link.Attrs()
		if attributes.Flags&net.FlagLoopback != 0 {
			continue
		}
		one := report.Interface{Name: attributes.Name, MAC: attributes.HardwareAddr.String(), MTU: attributes.MTU}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			one.Addresses = append(one.Addresses, a.IPNet.String())
		}
		routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if r.Gw != nil {
				one.Gateways = append(one.Gateways, r.Gw.String())
			}
		}
		out = append(out, one)
	}
	return out, nil
}
