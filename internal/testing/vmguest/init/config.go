package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// configured is what the config disk has.
type configured struct {
	config nocloud.Config
	files  map[string][]byte
	err    error
}

// readConfig mounts the config disk with the kernel's isofs.
func readConfig(device string) configured {
	if device == "" {
		return configured{err: fmt.Errorf("there is no disk labelled %s", nocloud.Label)}
	}
	const at = "/config"
	if err := os.MkdirAll(at, 0o700); err != nil {
		return configured{err: err}
	}
	if err := unix.Mount(device, at, "iso9660", unix.MS_RDONLY, ""); err != nil {
		return configured{err: fmt.Errorf("cannot mount the config disk: %w", err)}
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return configured{err: err}
	}
	out := configured{files: map[string][]byte{}}
	for _, e := range entries {
		if out.files[e.Name()], err = os.ReadFile(filepath.Join(at, e.Name())); err != nil {
			return configured{err: err}
		}
	}
	out.config, out.err = nocloud.Decode(out.files)
	return out
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
func (g *guest) applyConfig() {
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
	if err := up("lo"); err != nil {
		say("cannot set up lo: %v", err)
	}
	for _, n := range g.config.config.Interfaces {
		if err := applyInterface(n); err != nil {
			g.config.err = err
			say("cannot set up interface %s: %v", n.MAC, err)
		}
	}
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func applyInterface(n nocloud.Interface) error {
	link, err := byMAC(n.MAC)
	if err != nil {
		return err
	}
	if n.MTU > 0 {
		if err := netlink.LinkSetMTU(link, n.MTU); err != nil {
			return fmt.Errorf("cannot set MTU %d: %w", n.MTU, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, p := range n.Addresses {
		address := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			// The address is of use at once: nobody else has it.
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("cannot add address %s: %w", p, err)
		}
		say("address %s on %s", p, link.Attrs().Name)
	}
	for _, gateway := range n.Gateways {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("cannot add a route over %s: %w", gateway, err)
		}
	}
	return writeResolver(n)
}

// writeResolver tells Go's resolver of name servers.
func writeResolver(n nocloud.Interface) error {
	if len(n.DNS) == 0 {
		return nil
	}
	var text strings.Builder
	for _, a := range n.DNS {
		fmt.Fprintln(&text, "nameserver", a)
	}
	if len(n.Search) > 0 {
		fmt.Fprintln(&text, "search", strings.Join(n.Search, " "))
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/etc/resolv.conf", []byte(text.String()), 0o644)
}

func byMAC(mac net.HardwareAddr) (netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Attrs().HardwareAddr.String() == mac.String() {
			return link, nil
		}
	}
	return nil, fmt.Errorf("there is no interface %s", mac)
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
