package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// elsewhere is a machine beside the node: a network namespace with a cable to
// this one, and nothing of the node in it.
type elsewhere struct {
	path, link string
	address    netip.Addr
}

// makeElsewhere makes one, with addresses that nobody else has (RFC 2544).
func makeElsewhere(path string) (elsewhere, error) {
	n := rand.Uint32N(1 << 15) // of 198.18.0.0/15 that many /30
	base := uint32(198)<<24 | uint32(18)<<16 | n<<2
	here, there := address(base+1), address(base+2)
	e := elsewhere{path: path, link: fmt.Sprintf("demo%d", n), address: there}
	if err := netns.Make(e.path); err != nil {
		return e, err
	}
	ns, err := vnetns.GetFromPath(e.path)
	if err != nil {
		return e, err
	}
	defer ns.Close()
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: e.link}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(cable); err != nil {
		return e, fmt.Errorf("cannot make a cable: %w", err)
	}
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return e, err
	}
	defer inside.Close()
	mine, err := netlink.NewHandle()
	if err != nil {
		return e, err
	}
	defer mine.Close()
	if err := plug(mine, e.link, here); err != nil {
		return e, err
	}
	if err := plug(inside, "eth0", there); err != nil {
		return e, err
	}
	err = inside.RouteAdd(&netlink.Route{Gw: here.AsSlice()})
	return e, err
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// plug takes one end of the cable up, with its address.
func plug(h *netlink.Handle, name string, a netip.Addr) error {
	link, err := h.LinkByName(name)
	if err == nil {
		err = h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(30, 32)}})
	}
	if err == nil {
		err = h.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("cannot plug in %s: %w", name, err)
	}
	return nil
}

// dial connects from there.
func (e elsewhere) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = netns.Do(e.path, func() error {
		conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// leave takes it away; one that was never made, or is gone, is no error.
func (e elsewhere) leave() error {
	if e.path == "" {
		return nil
	}
	link, err := netlink.LinkByName(e.link)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		err = nil
	}
	if gone := netns.Remove(e.path); node.KindOf(gone) != node.NotExist {
		err = errors.Join(err, gone)
	}
	return err
}
