package links

import (
	"bytes"
	"net"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// PinMAC makes mac the one hardware address at a port of the bridge, which doesn't
// learn there: it would learn from some frames that pass no rule, and with one of
// these a member could take a neighbour's place.
func (r *Reconciler) PinMAC(port netlink.Link, mac net.HardwareAddr) error {
	name := port.Attrs().Name
	there, err := entriesOf(r, port)
	if err != nil {
		return node.Errorf(node.Internal, "cannot list the hardware addresses of port %s: %w", name, err)
	}
	pinned := false
	for _, at := range there {
		switch {
		case at.Flags&netlink.NTF_STICKY == 0:
		case bytes.Equal(at.HardwareAddr, mac):
			pinned = true
		case r.Differs("port %s has a fixed entry for hardware address %s", name, at.HardwareAddr):
			// The one that it had with another IP address.
			if err := r.nl.NeighDel(fixed(port, at.HardwareAddr)); err != nil && !errors.Is(err, unix.ENOENT) {
				return node.Errorf(node.Internal, "cannot free hardware address %s of port %s: %w", at.HardwareAddr, name, err)
			}
		}
	}
	if pinned || !r.Differs("port %s has no fixed entry for hardware address %s", name, mac) {
		return nil
	}
	if err := r.nl.LinkSetLearning(port, false); err != nil {
		return node.Errorf(node.Internal, "cannot keep port %s from learning: %w", name, err)
	}
	if err := r.nl.NeighSet(fixed(port, mac)); err != nil {
		return node.Errorf(node.Internal, "cannot fix hardware address %s to port %s: %w", mac, name, err)
	}
	return nil
}

// entriesOf are the bridge's entries at a port. A Reconciler that only looks reads those of all ports once: the kernel goes through
// all of them for each port.
func entriesOf(r *Reconciler, port netlink.Link) ([]netlink.Neigh, error) {
	index := port.Attrs().Index
	list := func(index int) ([]netlink.Neigh, error) {
		return netns.Whole(func() ([]netlink.Neigh, error) { return r.nl.NeighList(index, unix.AF_BRIDGE) })
	}
	if r.mode == Mend {
		return list(index)
	}
	if r.entries == nil {
		const everyPort = 0
		all, err := list(everyPort)
		if err != nil {
			return nil, err
		}
		r.entries = map[int][]netlink.Neigh{}
		for _, one := range all {
			r.entries[one.LinkIndex] = append(r.entries[one.LinkIndex], one)
		}
	}
	return r.entries[index], nil
}

// fixed is the bridge's entry of a hardware address at a port.
func fixed(port netlink.Link, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER | netlink.NTF_STICKY, HardwareAddr: mac,
	}
}
