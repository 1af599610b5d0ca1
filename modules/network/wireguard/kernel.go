package wireguard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// LinkType is the kernel's name of its WireGuard links.
const LinkType = "wireguard"

// aliasPrefix labels the links that are ours; the device's ID follows.
const aliasPrefix = "croft:"

// Alias is the label of the link of device id.
func Alias(id string) string { return aliasPrefix + id }

// Kernel holds devices of the kernel's own WireGuard. They need no process:
// it records only the endpoints wanted last, and the devices' namespaces.
type Kernel struct {
	namespaces string
	mu         sync.Mutex
	last       map[string]Config
	places     places
}

// NewKernel makes a Kernel whose devices are in the namespaces that files of
// the folder keep.
func NewKernel(namespaces string) *Kernel {
	return &Kernel{namespaces: namespaces, last: map[string]Config{}, places: places{}}
}

// Close lets go of the namespaces that are kept open. The devices stay.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.places {
		k.places.forget(id)
	}
}

// Name is "kernel".
func (k *Kernel) Name() string { return KernelName }

// Set makes or changes a device.
func (k *Kernel) Set(ctx context.Context, id string, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.Normal()
	inode, err := netns.Inode(c.Namespace)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.find(id)
	if err != nil {
		return err
	}
	if found != nil && (found.NamespaceInode != inode || found.Name != c.Name) {
		if err := removeLink(found.Namespace, found.Name); err != nil {
			return err
		}
		found = nil
	}
	if found == nil {
		if err := k.places.leave(id); err != nil {
			return err
		}
		if err := makeLink(id, c); err != nil {
			return err
		}
		delete(k.last, id)
	}
	if err := k.configure(id, c); err != nil {
		if found == nil {
			_ = removeLink(c.Namespace, c.Name)
		}
		return err
	}
	k.last[id] = c
	if err := k.places.note(id, c.Namespace, c.Name); err != nil {
		return err
	}
	return ctx.Err()
}

// configure sends the differences from inside the namespace: the kernel shows
// a device only there.
func (k *Kernel) configure(id string, c Config) error {
	var last *Config
	if l, ok := k.last[id]; ok {
		last = &l
	}
	return netns.Do(c.Namespace, func() error {
		link, err := netlink.LinkByName(c.Name)
		if err != nil {
			return failed("find", c.Name, err)
		}
		ctrl, err := wgctrl.New()
		if err != nil {
			return failed("configure", c.Name, err)
		}
		defer ctrl.Close()
		device, err := ctrl.Device(c.Name)
		if err != nil {
			return failed("read", c.Name, err)
		}
		if change := Plan(c, last, kernelStatus(device), time.Now()); !Empty(change) {
			if err := ctrl.ConfigureDevice(c.Name, change); err != nil {
				return portError(c, failed("configure", c.Name, err))
			}
		}
		if err := netlink.LinkSetMTU(link, c.MTU); err != nil {
			return failed("set the MTU of", c.Name, err)
		}
		// The kernel opens the socket when the link comes up, so a port in use shows here.
		return portError(c, failed("bring up", c.Name, netlink.LinkSetUp(link)))
	})
}

// makeLink makes the link in this namespace, where its socket stays, and
// moves it to the tenant's. It has a passing name until it is there.
func makeLink(id string, c Config) error {
	file, err := os.Open(c.Namespace)
	if err != nil {
		return node.Errorf(node.NotExist, "cannot make link %s: %w", c.Name, err)
	}
	defer file.Close()
	link := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: passingName()}, LinkType: LinkType}
	if err := netlink.LinkAdd(link); err != nil {
		return failed("make", c.Name, err)
	}
	made, err := netlink.LinkByName(link.Name)
	if err == nil {
		err = netlink.LinkSetNsFd(made, int(file.Fd()))
	}
	if err != nil {
		_ = netlink.LinkDel(link)
		return failed("move", c.Name, err)
	}
	return netns.Do(c.Namespace, func() error {
		moved, err := netlink.LinkByName(link.Name)
		if err != nil {
			return failed("find", c.Name, err)
		}
		// The label is first: with a name and no label it would be nobody's for ever.
		if err = netlink.LinkSetAlias(moved, Alias(id)); err == nil {
			err = netlink.LinkSetName(moved, c.Name)
		}
		if err != nil {
			_ = netlink.LinkDel(moved)
			return failed("name", c.Name, err)
		}
		return nil
	})
}

func removeLink(namespace, name string) error {
	return netns.Do(namespace, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return failed("find", name, err)
		}
		return failed("remove", name, netlink.LinkDel(link))
	})
}

// Remove removes a device.
func (k *Kernel) Remove(_ context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.find(id)
	if err != nil {
		return err
	}
	if found == nil {
		delete(k.last, id)
		if err := k.places.leave(id); err != nil {
			return err
		}
		return node.Errorf(node.NotExist, "cannot remove WireGuard device %s: there is none", id)
	}
	delete(k.last, id)
	k.places.forget(id)
	return removeLink(found.Namespace, found.Name)
}

// List returns the devices in all namespaces of the folder.
func (k *Kernel) List(ctx context.Context) ([]Status, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := k.list()
	if err != nil {
		return nil, err
	}
	return all, ctx.Err()
}

// Get returns one device.
func (k *Kernel) Get(ctx context.Context, id string) (Status, error) {
	all, err := k.List(ctx)
	if err != nil {
		return Status{}, err
	}
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
	}
	return Status{}, node.Errorf(node.NotExist, "cannot look at WireGuard device %s: there is none", id)
}

func (k *Kernel) list() ([]Status, error) {
	entries, err := os.ReadDir(k.namespaces)
	if err != nil && !os.IsNotExist(err) {
		return nil, node.Errorf(node.Internal, "cannot list WireGuard devices: %w", err)
	}
	var all []Status
	for _, e := range entries {
		path := filepath.Join(k.namespaces, e.Name())
		inode, err := netns.Inode(path)
		if err != nil {
			continue // no namespace
		}
		found, err := listNamespace(path, inode)
		if errors.Is(err, node.NotExist) {
			continue // it went in the meantime
		}
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			k.adopt(s)
		}
		all = append(all, found...)
	}
	return all, nil
}

// adopt remembers where a device is that was made by another Kernel, such as
// that of this node before its restart.
func (k *Kernel) adopt(s Status) {
	if _, known := k.places[s.ID]; !known {
		_ = k.places.note(s.ID, s.Namespace, s.Name) // else it is noted the next time
	}
}

func listNamespace(path string, inode uint64) (found []Status, err error) {
	err = netns.Do(path, func() error {
		links, err := netns.Whole(netlink.LinkList)
		if err != nil {
			return failed("list", path, err)
		}
		for _, link := range links {
			id, ours := strings.CutPrefix(link.Attrs().Alias, aliasPrefix)
			if !ours || link.Type() != LinkType {
				continue
			}
			s, err := readLink(link)
			if err != nil {
				return err
			}
			s.ID, s.Namespace, s.NamespaceInode = id, path, inode
			found = append(found, s)
		}
		return nil
	})
	return found, err
}

func readLink(link netlink.Link) (Status, error) {
	name := link.Attrs().Name
	ctrl, err := wgctrl.New()
	if err != nil {
		return Status{}, failed("read", name, err)
	}
	defer ctrl.Close()
	device, err := ctrl.Device(name)
	if err != nil {
		return Status{}, failed("read", name, err)
	}
	s := kernelStatus(device)
	if link.Attrs().RawFlags&unix.IFF_UP == 0 {
		s.Broken = "link " + name + " is down"
	}
	return s, nil
}

func (k *Kernel) find(id string) (*Status, error) {
	all, err := k.list()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.ID == id {
			return &s, nil
		}
	}
	return nil, nil
}

// kernelStatus converts wgctrl's Device to a Status.
func kernelStatus(d *wgtypes.Device) Status {
	s := Status{Name: d.Name, PublicKey: Key(d.PublicKey), ListenPort: uint16(d.ListenPort)}
	for _, p := range d.Peers {
		status := PeerStatus{
			PublicKey: Key(p.PublicKey), Keepalive: p.PersistentKeepaliveInterval, LastHandshake: p.LastHandshakeTime,
			Rx: uint64(p.ReceiveBytes), Tx: uint64(p.TransmitBytes),
		}
		if p.Endpoint != nil {
			at := p.Endpoint.AddrPort()
			status.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		}
		for _, ip := range p.AllowedIPs {
			addr, _ := netip.AddrFromSlice(ip.IP)
			ones, _ := ip.Mask.Size()
			status.AllowedIPs = append(status.AllowedIPs, netip.PrefixFrom(addr, ones))
		}
		s.Peers = append(s.Peers, status)
	}
	return s
}

// passingName is one that nobody else has.
func passingName() string {
	var raw [5]byte
	_, _ = rand.Read(raw[:])
	return "wg-" + hex.EncodeToString(raw[:])
}

// failed gives an error of netlink or wgctrl its kind.
func failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	var gone netlink.LinkNotFoundError
	kind := node.Internal
	switch {
	case errors.As(err, &gone), errors.Is(err, unix.ENODEV), errors.Is(err, os.ErrNotExist):
		kind = node.NotExist
	case errors.Is(err, unix.EEXIST):
		kind = node.Exist
	case errors.Is(err, unix.EBUSY):
		kind = node.Busy
	}
	return node.Errorf(kind, "cannot %s WireGuard link %s: %w", what, name, err)
}

// portError names the port when it is in use.
func portError(c Config, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return PortInUse(c)
	}
	return err
}

// PortInUse is the error for a port that somebody else has.
func PortInUse(c Config) error {
	return node.Errorf(node.Refused, "cannot use UDP port %d for %s: it is in use on this node", c.ListenPort, c.Name)
}
