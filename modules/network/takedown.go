package network

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/host"
	"github.com/croft-edge/croft/modules/network/store"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// TakeDown removes all networks of a stopped node, with their members, the carrier
// and the node's own rules, as a reboot does. The node makes them again at its next
// start. Busy while the module runs.
func TakeDown(ctx context.Context, cfg Config) error {
	if _, err := os.Stat(cfg.Dir); os.IsNotExist(err) {
		return nil
	}
	folder, err := store.Open(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	// The rest is taken down also when the carrier hangs; the folder stays, for another try.
	carrierEnd := carrier.End(ctx, cfg.Carrier.RunDir)
	files, err := filepath.Glob(filepath.Join(folder.Namespaces(), "*"))
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	for _, file := range files {
		if err := netns.Remove(file); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	if err := removeLinks(cfg.LinkPrefixes()...); err != nil {
		return err
	}
	if err := host.TakeDown(cfg.Dir, cfg.table()); err != nil {
		return err
	}
	if carrierEnd != nil {
		return carrierEnd
	}
	return folder.RemoveAll()
}

// removeLinks removes the links whose names begin with one of the prefixes. A
// namespace takes its end of a pair with it only when the kernel comes to it.
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
