package network

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// TakeDown removes all networks of a stopped node, whoever is in them, with
// the carrier and the node's own rules: what a reboot does to them, but for
// that the node makes them again at its next start. Busy while the module runs.
func TakeDown(ctx context.Context, cfg Config) error {
	if _, err := os.Stat(cfg.Dir); os.IsNotExist(err) {
		return nil
	}
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = unlockFolder(lock) }()
	if err := carrier.End(ctx, cfg.Carrier.RunDir); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(cfg.Dir, netnsFolder, "*"))
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	for _, file := range files {
		if err := netns.Remove(file); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	if err := removeLinks(cfg.uplinkPrefix(), cfg.publicPrefix()); err != nil {
		return err
	}
	if err := stopForwarding(cfg.Dir); err != nil {
		return err
	}
	if err := firewall.RemoveNode("", cfg.table()); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	if err := os.RemoveAll(cfg.Dir); err != nil {
		return node.Errorf(node.Internal, "cannot remove the networks' folder: %w", err)
	}
	return nil
}

// stopForwarding goes before the rules that keep others from being forwarded.
// While another node on this machine has networks, they need it.
func stopForwarding(dir string) error {
	links, err := net.Interfaces()
	if err != nil {
		return node.Errorf(node.Internal, "cannot list links: %w", err)
	}
	if slices.ContainsFunc(links, func(l net.Interface) bool { return strings.HasPrefix(l.Name, firewall.AnyNode) }) {
		return nil
	}
	h, err := readHost(dir)
	if err != nil && !os.IsNotExist(err) {
		return node.Errorf(node.Internal, "cannot read whether the node forwarded before: %w", err)
	}
	for name, opened := range map[string]bool{forward4: h.Opened4, forward6: h.Opened6} {
		if !opened {
			continue
		}
		if err := sysctl(name, "0"); err != nil {
			return err
		}
	}
	return nil
}

// removeLinks removes croft's links whose names start so. A namespace takes
// its end of a pair with it only when the kernel comes to it.
func removeLinks(prefixes ...string) error {
	links, err := net.Interfaces()
	if err != nil {
		return node.Errorf(node.Internal, "cannot list links: %w", err)
	}
	for _, l := range links {
		for _, prefix := range prefixes {
			if !strings.HasPrefix(l.Name, prefix) {
				continue
			}
			err := netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: l.Index, Name: l.Name}})
			if _, there := net.InterfaceByIndex(l.Index); err != nil && there == nil {
				return node.Errorf(node.Internal, "cannot remove link %s: %w", l.Name, err)
			}
		}
	}
	return nil
}
