package network

import (
	"context"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// carrierPatience bounds one call of the carrier: it answers in milliseconds.
const carrierPatience = 10 * time.Second

// tunnels is what holds tunnels and names up: the kernel or the carrier, and
// the carrier. Both are looked for when the first network needs them.
type tunnels struct {
	backend wireguard.Backend
	// why says why the kernel isn't the backend.
	why     string
	carrier *carrier.Client
}

// connect finds the carrier, or starts one, and the backend.
func (m *Module) connect(ctx context.Context) (tunnels, error) {
	if m.tunnels.carrier != nil {
		select {
		case <-m.tunnels.carrier.Done():
		default:
			return m.tunnels, nil
		}
	}
	client, err := carrier.Ensure(ctx, m.cfg.Carrier)
	if err != nil {
		return tunnels{}, err
	}
	if m.tunnels.backend == nil {
		kernel, why := wireguard.Detect(ctx)
		m.tunnels.why = why
		if kernel {
			m.tunnels.backend = wireguard.NewKernel(filepath.Join(m.cfg.Dir, netnsFolder))
		}
	}
	if m.tunnels.why != "" {
		m.tunnels.backend = userspace{client}
	}
	if m.tunnels.carrier != nil {
		m.tunnels.carrier.Close()
	}
	m.tunnels.carrier = client
	m.wake()
	return m.tunnels, nil
}

// close lets go of what the kernel's backend keeps open.
func (t tunnels) close() {
	if kernel, ok := t.backend.(*wireguard.Kernel); ok {
		kernel.Close()
	}
}

// userspace is the carrier as a backend.
type userspace struct{ carrier *carrier.Client }

// Name implements wireguard.Backend.
func (userspace) Name() string { return wireguard.UserspaceName }

// Set implements wireguard.Backend.
func (u userspace) Set(ctx context.Context, id string, c wireguard.Config) error {
	return u.carrier.SetDevice(ctx, id, c)
}

// Remove implements wireguard.Backend.
func (u userspace) Remove(ctx context.Context, id string) error {
	return u.carrier.RemoveDevice(ctx, id)
}

// Get implements wireguard.Backend.
func (u userspace) Get(ctx context.Context, id string) (wireguard.Status, error) {
	return u.carrier.Device(ctx, id)
}

// List implements wireguard.Backend.
func (u userspace) List(ctx context.Context) ([]wireguard.Status, error) {
	return u.carrier.Devices(ctx)
}

// device is n's tunnel as it shall be.
func (m *Module) device(n *network) wireguard.Config {
	c := wireguard.Config{
		Name: tunnelName, Namespace: m.namespace(n.id()), PrivateKey: n.plan.key, ListenPort: n.plan.spec.ListenPort, MTU: tunnelMTU,
	}
	for _, p := range n.plan.peers {
		c.Peers = append(c.Peers, wireguard.Peer{PublicKey: p.key, Endpoint: n.Endpoints[p.key.String()], AllowedIPs: p.allowed})
	}
	return c
}

// zone is what n's DNS answers.
func (n *network) zone(namespace string) carrier.Zone {
	names := map[string][]netip.Addr{}
	for _, one := range n.sorted() {
		if one.Name != "" {
			names[one.Name] = append(names[one.Name], append(append([]netip.Addr{}, one.IPs...), n.address6(one))...)
		}
	}
	return carrier.Zone{ID: n.id(), Namespace: namespace, Network: n.plan.spec.Name, Names: names}
}

// hasKey reports whether the module knows n's private key: after its own
// restart it doesn't, and needs it only where the tunnel has to be made again.
func (n *network) hasKey() bool { return !n.plan.key.IsZero() }

// raise brings n's tunnel and DNS to what they shall be.
func (m *Module) raise(ctx context.Context, n *network) error {
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	t, err := m.connect(ctx)
	if err != nil {
		return err
	}
	// The names are first: where the namespace is a new one, their sockets are the
	// last that keep the old one, with the kernel's tunnel in it and its port.
	zone := t.carrier.SetZone(ctx, n.zone(m.namespace(n.id())))
	if n.hasKey() {
		if err := m.clearTunnel(ctx, n, t); err != nil {
			return err
		}
		if err := t.backend.Set(ctx, n.id(), m.device(n)); err != nil {
			return err
		}
	}
	in, err := plumbing(m.namespace(n.id()), false)
	if err != nil {
		return err
	}
	defer in.close()
	return firstError([]error{n.plumbTunnel(in), zone})
}

// tunLink is the type of the carrier's links, as netlink's library calls it.
const tunLink = "tuntap"

// clearTunnel removes the link of the other backend: the kernel may have got
// WireGuard since the carrier's was made, or lost it.
func (m *Module) clearTunnel(ctx context.Context, n *network, t tunnels) error {
	backend := t.backend.Name()
	in, err := plumbing(m.namespace(n.id()), false)
	if err != nil {
		return err
	}
	defer in.close()
	l, err := in.find(tunnelName)
	kind := tunLink
	if backend == wireguard.KernelName {
		kind = wireguard.LinkType
	}
	if err != nil || l == nil || l.Type() == kind {
		return err
	}
	m.cfg.Log.Warn().Str("id", n.Spec.Label).Str("type", "network").Str("link", l.Type()).Str("backend", backend).Msg("the tunnel is made anew by another WireGuard")
	if backend == wireguard.KernelName {
		// With its link the carrier's device would go too, but its port only later.
		if err := t.carrier.RemoveDevice(ctx, n.id()); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return in.remove(tunnelName)
}

// plumbTunnel gives the tunnel's link its address and routes.
func (n *network) plumbTunnel(in *plumber) error {
	l, err := in.find(tunnelName)
	if err != nil {
		return err
	}
	if l == nil {
		in.differs("link %s is gone", tunnelName)
		return nil
	}
	var own []netip.Prefix
	if at, ok := workload.TunnelAddress(n.plan.subnet); ok {
		own = append(own, netip.PrefixFrom(at, 32))
	}
	var routes []route
	for _, p := range n.plan.peers {
		for _, a := range p.allowed {
			// What holds the whole of what is here goes where it is longer.
			if a.Bits() == 0 {
				continue
			}
			routes = append(routes, route{dst: a})
		}
	}
	return firstError([]error{in.addresses(l, own...), in.up(l), in.routes(l, routes...)})
}

// lower takes n's tunnel and DNS down.
func (m *Module) lower(ctx context.Context, n *network) error {
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	t, err := m.connect(ctx)
	if err != nil {
		return err
	}
	for _, err := range []error{t.backend.Remove(ctx, n.id()), t.carrier.RemoveZone(ctx, n.id())} {
		if err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return nil
}

// held is what the backend and the carrier hold, for one look at all networks.
type held struct {
	// outside looks at the node's own namespace, once for all of them.
	outside *plumber
	// away says why nobody could be asked.
	away    string
	devices map[string]wireguard.Status
	zones   map[string]carrier.ZoneStatus
}

// close ends the look.
func (h held) close() {
	if h.outside != nil {
		h.outside.close()
	}
}

// look asks the carrier once for all networks.
func (m *Module) look(ctx context.Context) held {
	return m.lookWith(ctx, func(ctx context.Context, t tunnels) ([]wireguard.Status, error) { return t.backend.List(ctx) })
}

// lookAt asks it for one.
func (m *Module) lookAt(ctx context.Context, id string) held {
	return m.lookWith(ctx, func(ctx context.Context, t tunnels) ([]wireguard.Status, error) {
		one, err := t.backend.Get(ctx, id)
		if node.KindOf(err) == node.NotExist {
			return nil, nil
		}
		return []wireguard.Status{one}, err
	})
}

func (m *Module) lookWith(ctx context.Context, list func(context.Context, tunnels) ([]wireguard.Status, error)) held {
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	h := held{devices: map[string]wireguard.Status{}, zones: map[string]carrier.ZoneStatus{}}
	outside, err := plumbing("", true)
	if err != nil {
		h.away = err.Error()
		return h
	}
	h.outside = outside
	t, err := m.connect(ctx)
	if err != nil {
		h.away = err.Error()
		return h
	}
	devices, err := list(ctx, t)
	if err != nil {
		h.away = err.Error()
		return h
	}
	for _, d := range devices {
		h.devices[d.ID] = d
	}
	zones, err := t.carrier.Zones(ctx)
	if err != nil {
		h.away = err.Error()
		return h
	}
	for _, z := range zones {
		h.zones[z.ID] = z
	}
	return h
}

// drift says what of n's tunnel and DNS isn't as it shall be.
func (h held) drift(n *network, namespace string) string {
	if h.away != "" {
		return "its carrier is away: " + h.away
	}
	inode, err := netns.Inode(namespace)
	if err != nil {
		return "its namespace is gone"
	}
	d, ok := h.devices[n.id()]
	switch {
	case !ok:
		return "its tunnel is down"
	case d.Broken != "":
		return "its tunnel is broken: " + d.Broken
	case d.NamespaceInode != inode:
		return "its tunnel is in another namespace"
	case d.ListenPort != n.plan.spec.ListenPort:
		return "its tunnel listens on another port"
	case len(d.Peers) != len(n.plan.peers):
		return "its tunnel has other peers"
	case n.moved:
		return "its tunnel leads elsewhere than a peer's name"
	}
	return h.dnsDrift(n, inode)
}

// dnsDrift says what of n's DNS isn't as it shall be.
func (h held) dnsDrift(n *network, inode uint64) string {
	z, ok := h.zones[n.id()]
	switch {
	case !ok:
		return "its DNS is down"
	case z.Broken != "":
		return "its DNS is broken: " + z.Broken
	case z.NamespaceInode != inode:
		return "its DNS is in another namespace"
	case z.Digest != carrier.Digest(n.zone("")):
		return "its DNS has other names"
	}
	return ""
}
