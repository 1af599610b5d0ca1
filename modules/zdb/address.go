package zdb

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
)

// tries is how often the kernel's list is read if it changes meanwhile.
const tries = 16

// addresses are the node's own at which its zdbs answer, one of each family; the
// zero Addr for none.
func (c Config) addresses(ctx context.Context) (v4, v6 netip.Addr, err error) {
	var all []netip.Addr
	if port.Everywhere(c.Listen) {
		if all, err = ownAddresses(c.OwnLinks); err != nil {
			return v4, v6, node.Errorf(node.Transient, "cannot tell the addresses of zdbs: this machine's addresses aren't known: %w", err)
		}
		if c.Listen.Is4() {
			all = slices.DeleteFunc(all, netip.Addr.Is6)
		}
		v4 = best(all, netip.Addr.Is4, wayOut(ctx, "udp4", "192.0.2.1:9"))
		v6 = best(all, netip.Addr.Is6, wayOut(ctx, "udp6", "[2001:db8::1]:9"))
	} else if listen := c.Listen.Unmap(); listen.Is4() {
		v4 = listen
	} else {
		v6 = listen
	}
	if c.IPv4.IsValid() {
		v4 = c.IPv4
	}
	if c.IPv6.IsValid() {
		v6 = c.IPv6
	}
	return v4, v6, nil
}

// best chooses the address of a family: a public one before others, among equals the
// source address of outgoing connections, else the first.
func best(all []netip.Addr, family func(netip.Addr) bool, out netip.Addr) netip.Addr {
	var found netip.Addr
	rank := 0
	for _, a := range all {
		if !family(a) || !a.IsGlobalUnicast() {
			continue
		}
		r := 1
		if !slices.ContainsFunc(dial.NonPublic(), func(p netip.Prefix) bool { return p.Contains(a) }) {
			r += 2
		}
		if a == out {
			r++
		}
		if r > rank {
			found, rank = a, r
		}
	}
	return found
}

// wayOut is the source address of outgoing connections. Nothing is sent.
func wayOut(ctx context.Context, network, to string) netip.Addr {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, to)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// ownAddresses are the lasting addresses of the machine's links that are up, in the order
// of the links, without links whose names begin with one of own.
func ownAddresses(own []string) ([]netip.Addr, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{}
	for _, l := range links {
		ours[l.Index] = l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 &&
			!slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(l.Name, prefix) })
	}
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	for try := 1; try < tries && errors.Is(err, netlink.ErrDumpInterrupted); try++ {
		list, err = netlink.AddrList(nil, netlink.FAMILY_ALL)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b netlink.Addr) int { return a.LinkIndex - b.LinkIndex })
	var out []netip.Addr
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		if ok && ours[a.LinkIndex] && a.Flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_DEPRECATED|unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 {
			out = append(out, addr.Unmap())
		}
	}
	return out, nil
}
