// Package tunnel is the tunnels and the DNS of networks: it chooses between the
// kernel's WireGuard and the carrier's, keeps a client of the carrier, and brings a
// network's device, its link and its zone to the desired state.
//
// Of a network's namespace it touches the tunnel's link only.
package tunnel

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// patience bounds one call of the carrier: it answers in milliseconds.
const patience = 10 * time.Second

// Config is that of Tunnels.
type Config struct {
	// Namespaces is the folder of the files that keep the networks' namespaces.
	Namespaces string
	// Carrier is how the wg carrier is found and started.
	Carrier carrier.Config
	// Connected is called with each new carrier; it may not wait.
	Connected func()
	// Servers are the name servers that the networks' DNS asks for other names; none are those of /etc/resolv.conf.
	Servers []netip.AddrPort
	Log     zerolog.Logger
}

// Tunnels are those of all networks. The backend and the carrier are looked for when
// the first network needs them. It isn't safe for concurrent use.
type Tunnels struct {
	cfg     Config
	detect  func(ctx context.Context) (kernel bool, why string)
	backend wireguard.Backend
	// why says why the kernel isn't the backend.
	why     string
	carrier *carrier.Client
	// empty is true when the connected carrier began empty: it was started for this
	// process, or came after one that ended. One that ran before is adopted as it is.
	empty bool
	// given are the networks, by their IDs, that Raise was called for on the connected
	// carrier, but for calls that it didn't answer. It may still lack one that failed.
	given map[string]bool
}

// New makes it, with nothing connected.
func New(c Config) *Tunnels { return &Tunnels{cfg: c, detect: wireguard.Detect} }

// Raised reports whether a carrier is connected that hasn't ended, and n needn't be given
// to it: it ran before this process, or Raise was called for n since. Any call may be the
// first to notice that a carrier has ended, and connects its successor, which has no device
// and no zone.
func (t *Tunnels) Raised(n *resource.Network) bool {
	return t.Alive() && (!t.empty || t.given[n.ID()])
}

// Alive reports whether a carrier is connected that hasn't ended.
func (t *Tunnels) Alive() bool {
	if t.carrier == nil {
		return false
	}
	select {
	case <-t.carrier.Done():
		return false
	default:
		return true
	}
}

// Connected reports whether a carrier was ever connected.
func (t *Tunnels) Connected() bool { return t.carrier != nil }

// Ended is closed when the connected carrier has ended; nil without one.
func (t *Tunnels) Ended() <-chan struct{} {
	if t.carrier == nil {
		return nil
	}
	return t.carrier.Done()
}

// ensure finds a carrier that can do what is asked of it, or starts one. An earlier one that can't is replaced: its links stay.
func (t *Tunnels) ensure(ctx context.Context) (*carrier.Client, error) {
	client, err := carrier.Ensure(ctx, t.cfg.Carrier)
	if err != nil || len(t.cfg.Servers) == 0 {
		return client, err
	}
	info, err := client.Info(ctx)
	if err == nil && info.Servers {
		return client, nil
	}
	defer client.Close()
	if err == nil {
		err = client.Stop(ctx)
	}
	if err != nil {
		return nil, err
	}
	return carrier.Ensure(ctx, t.cfg.Carrier)
}

// Connect finds the carrier, or starts one, and the backend.
func (t *Tunnels) Connect(ctx context.Context) error {
	if t.Alive() {
		return nil
	}
	client, err := t.ensure(ctx)
	if err != nil {
		return err
	}
	if err := t.choose(ctx); err != nil {
		client.Close()
		return err
	}
	if t.why != "" {
		t.backend = userspace{client}
	}
	if t.carrier != nil {
		t.carrier.Close()
	}
	t.empty = client.Started() || t.carrier != nil
	t.carrier, t.given = client, map[string]bool{}
	t.cfg.Connected()
	return nil
}

// choose finds out once whether the kernel is the backend. A caller that goes away meanwhile decides nothing: the next one asks again.
func (t *Tunnels) choose(ctx context.Context) error {
	if t.backend != nil {
		return nil
	}
	kernel, why := t.detect(ctx)
	if err := ctx.Err(); err != nil && !kernel {
		return node.Errorf(node.Transient, "cannot find out whether the kernel has WireGuard: %w", err)
	}
	t.why = why
	if kernel {
		t.backend = wireguard.NewKernel(t.cfg.Namespaces)
	}
	return nil
}

// Close closes the open files of the kernel's backend, and ends the watch of the carrier,
// which goes on.
func (t *Tunnels) Close() {
	if t.carrier != nil {
		t.carrier.Close()
	}
	if kernel, ok := t.backend.(*wireguard.Kernel); ok {
		kernel.Close()
	}
}

// zone is what the DNS of a network answers, and whom it asks.
func (t *Tunnels) zone(n *resource.Network) carrier.Zone {
	z := n.Zone()
	z.Servers = t.cfg.Servers
	return z
}

// Raise brings n's tunnel and DNS to the desired state.
func (t *Tunnels) Raise(ctx context.Context, n *resource.Network) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.Connect(ctx); err != nil {
		return err
	}
	err := t.raise(ctx, n)
	if ctx.Err() == nil && t.Alive() {
		t.given[n.ID()] = true
	}
	return err
}

// raise is Raise with a connected carrier.
func (t *Tunnels) raise(ctx context.Context, n *resource.Network) error {
	// The names are first: where the namespace is a new one, their sockets are the
	// last that keep the old one, with the kernel's tunnel in it and its port.
	zone := t.carrier.SetZone(ctx, t.zone(n))
	if n.HasKey() {
		if err := t.clearOther(ctx, n); err != nil {
			return err
		}
		if err := t.backend.Set(ctx, n.ID(), n.Device()); err != nil {
			return err
		}
		n.Moved = false
	}
	in, err := links.Open(n.Namespace, links.Mend)
	if err != nil {
		return err
	}
	defer in.Close()
	return cmp.Or(reconcileLink(n, in), zone)
}

// SetZone brings n's DNS to the desired state.
func (t *Tunnels) SetZone(ctx context.Context, n *resource.Network) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.Connect(ctx); err != nil {
		return err
	}
	return t.carrier.SetZone(ctx, t.zone(n))
}

// Redirect brings the device of n, which Raise has made, to the present addresses of
// its peers' endpoints.
func (t *Tunnels) Redirect(ctx context.Context, n *resource.Network) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.backend.Set(ctx, n.ID(), n.Device())
}

// Lower removes n's tunnel and DNS.
func (t *Tunnels) Lower(ctx context.Context, n *resource.Network) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.Connect(ctx); err != nil {
		return err
	}
	for _, err := range []error{t.backend.Remove(ctx, n.ID()), t.carrier.RemoveZone(ctx, n.ID())} {
		if err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	delete(t.given, n.ID())
	return nil
}

// tunLink is the type of the carrier's links, as netlink's library calls it.
const tunLink = "tuntap"

// clearOther removes the link of the other backend: the kernel may have got
// WireGuard since the carrier's was made, or lost it.
func (t *Tunnels) clearOther(ctx context.Context, n *resource.Network) error {
	backend := t.backend.Name()
	in, err := links.Open(n.Namespace, links.Mend)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := in.Find(resource.Tunnel)
	kind := tunLink
	if backend == wireguard.KernelName {
		kind = wireguard.LinkType
	}
	if err != nil || l == nil || l.Type() == kind {
		return err
	}
	t.cfg.Log.Warn().Str("id", n.Spec.Label).Str("type", "network").Str("step", "tunnel").Str("link", l.Type()).Str("backend", backend).Msg("the tunnel is made anew with another WireGuard backend")
	if backend == wireguard.KernelName {
		// With its link the carrier's device would go too, but its port only later.
		if err := t.carrier.RemoveDevice(ctx, n.ID()); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return in.Remove(resource.Tunnel)
}

// reconcileLink gives the tunnel's link its address and routes.
func reconcileLink(n *resource.Network, in *links.Reconciler) error {
	l, err := in.Find(resource.Tunnel)
	if err != nil {
		return err
	}
	if l == nil {
		in.Differs("link %s is gone", resource.Tunnel)
		return nil
	}
	var own []netip.Prefix
	if at, ok := workload.TunnelAddress(n.Plan.Subnet); ok {
		own = append(own, netip.PrefixFrom(at, 32))
	}
	var routes []links.Route
	for _, p := range n.Plan.Peers {
		for _, a := range p.Allowed {
			// A range of all addresses is no route: members reach those by the uplink.
			if a.Bits() == 0 {
				continue
			}
			routes = append(routes, links.Route{Dst: a})
		}
	}
	return cmp.Or(in.Addresses(l, own...), in.Up(l), in.Routes(l, routes...))
}
