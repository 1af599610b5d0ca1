package tunnel

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Backend is the backend's name, empty before the first network.
func (t *Tunnels) Backend() string {
	if t.backend == nil {
		return ""
	}
	return t.backend.Name()
}

// Why says why the kernel isn't the backend.
func (t *Tunnels) Why() string { return t.why }

// Carrier asks the connected carrier about itself.
func (t *Tunnels) Carrier(ctx context.Context) (carrier.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.carrier.Info(ctx)
}

// Observation is the devices of the backend and the zones of the carrier, by their
// networks' IDs, as they were at one time.
type Observation struct {
	// away says why nobody could be asked.
	away    string
	devices map[string]wireguard.Status
	zones   map[string]carrier.ZoneStatus
	// zone is what the DNS of a network has to serve.
	zone func(*resource.Network) carrier.Zone
}

// Observe asks the backend and the carrier once for all networks.
func (t *Tunnels) Observe(ctx context.Context) Observation {
	// Connect may change the backend and the carrier: they are taken after it.
	return t.observe(ctx, func(ctx context.Context) ([]wireguard.Status, error) { return t.backend.List(ctx) },
		func(ctx context.Context) ([]carrier.ZoneStatus, error) { return t.carrier.Zones(ctx) })
}

// ObserveOne asks for one network's device and DNS only: lists of all would make garbage in the carrier, whose buffers are the dearer for it.
func (t *Tunnels) ObserveOne(ctx context.Context, id string) Observation {
	return t.observe(ctx, func(ctx context.Context) ([]wireguard.Status, error) {
		one, err := t.backend.Get(ctx, id)
		if node.KindOf(err) == node.NotExist {
			return nil, nil
		}
		return []wireguard.Status{one}, err
	}, func(ctx context.Context) ([]carrier.ZoneStatus, error) { return t.carrier.Zone(ctx, id) })
}

func (t *Tunnels) observe(
	ctx context.Context, list func(context.Context) ([]wireguard.Status, error), names func(context.Context) ([]carrier.ZoneStatus, error),
) Observation {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := Observation{devices: map[string]wireguard.Status{}, zones: map[string]carrier.ZoneStatus{}, zone: t.zone}
	if err := t.Connect(ctx); err != nil {
		o.away = err.Error()
		return o
	}
	devices, err := list(ctx)
	if err != nil {
		o.away = err.Error()
		return o
	}
	for _, d := range devices {
		o.devices[d.ID] = d
	}
	zones, err := names(ctx)
	if err != nil {
		o.away = err.Error()
		return o
	}
	for _, z := range zones {
		o.zones[z.ID] = z
	}
	return o
}

// Peers are the peers of a network's tunnel.
func (o Observation) Peers(id string) []wireguard.PeerStatus { return o.devices[id].Peers }

// Heard reports whether a network's peer had a handshake within that time.
func (o Observation) Heard(id string, key wireguard.Key, within time.Duration) bool {
	for _, p := range o.devices[id].Peers {
		if p.PublicKey == key {
			return time.Since(p.LastHandshake) < within
		}
	}
	return false
}

// Drift says how n's tunnel and DNS differ from the desired state.
func (o Observation) Drift(n *resource.Network) string {
	if o.away != "" {
		return "its carrier is away: " + o.away
	}
	inode, err := netns.Inode(n.Namespace)
	if err != nil {
		return "its namespace is gone"
	}
	d, ok := o.devices[n.ID()]
	switch {
	case !ok:
		return "its tunnel is down"
	case d.Broken != "":
		return "its tunnel is broken: " + d.Broken
	case d.NamespaceInode != inode:
		return "its tunnel is in another namespace"
	case d.ListenPort != n.Plan.Spec.ListenPort:
		return "its tunnel listens on another port"
	case d.PublicKey.String() != n.Plan.Spec.PublicKey:
		return "its tunnel has another key"
	case !wireguard.SamePeers(n.Device(), d):
		return "its tunnel has other peers"
	case n.Moved:
		return "its tunnel leads elsewhere than a peer's name"
	}
	return o.dnsDrift(n, inode)
}

// dnsDrift says how n's DNS differs from the desired state.
func (o Observation) dnsDrift(n *resource.Network, inode uint64) string {
	z, ok := o.zones[n.ID()]
	switch {
	case !ok:
		return "its DNS is down"
	case z.Broken != "":
		return "its DNS is broken: " + z.Broken
	case z.NamespaceInode != inode:
		return "its DNS is in another namespace"
	case z.Digest != carrier.Digest(o.zone(n)):
		return "its DNS has other names"
	}
	return ""
}

// LinkDrift says how the link of n's tunnel differs from the desired state.
func LinkDrift(n *resource.Network) (string, error) {
	in, err := links.Open(n.Namespace, links.Look)
	if err != nil {
		return "", err
	}
	defer in.Close()
	err = reconcileLink(n, in)
	return in.Drift(), err
}
