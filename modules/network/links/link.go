package links

import (
	"bytes"
	"net"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Find returns the link of that name, nil when there is none.
func (r *Reconciler) Find(name string) (netlink.Link, error) {
	l, err := r.nl.LinkByName(name)
	if IsNoLink(err) {
		return nil, nil
	}
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot look at link %s: %w", name, err)
	}
	return l, nil
}

// Owned returns the link of that name in the node's namespace, nil when there is none. Exist when it isn't croft's: it has
// another label, or has none and isn't one that croft has just made, with the hardware address mac. Busy when it is another's of croft, which
// may be about to leave.
func (r *Reconciler) Owned(name, id string, mac net.HardwareAddr) (netlink.Link, error) {
	l, err := r.Find(name)
	if err != nil || l == nil {
		return nil, err
	}
	alias := l.Attrs().Alias
	if alias == labelPrefix+id || alias == "" && bytes.Equal(l.Attrs().HardwareAddr, mac) {
		return l, nil
	}
	kind := node.Exist
	if strings.HasPrefix(alias, labelPrefix) {
		kind = node.Busy
	}
	return nil, node.Errorf(kind, "cannot use link %s: there is one of that name, of type %s, that isn't croft's of %s", name, l.Type(), id)
}

// IsNoLink reports whether err is of a missing link: the library's own error of a
// look, or the kernel's ENODEV for a link that went since. A namespace that ends
// takes the other ends of its pairs with it at any time.
func IsNoLink(err error) bool {
	_, ok := err.(netlink.LinkNotFoundError) //nolint:errorlint // the library returns it bare
	return ok || errors.Is(err, unix.ENODEV)
}

// Link returns the link of that name; create makes a missing one. It is nil when
// the link is missing and the Reconciler only looks.
func (r *Reconciler) Link(name string, create func() error) (netlink.Link, error) {
	l, err := r.Find(name)
	if err != nil || l != nil {
		return l, err
	}
	if !r.Differs("link %s is gone", name) {
		return nil, nil
	}
	if err := create(); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make link %s: %w", name, err)
	}
	l, err = r.Find(name)
	if err == nil && l == nil {
		err = node.Errorf(node.Internal, "cannot make link %s: it isn't there", name)
	}
	return l, err
}

// Label marks a link of the node's namespace as id's, which Owned has returned or croft has made.
func (r *Reconciler) Label(l netlink.Link, id string) error {
	want := labelPrefix + id
	switch have := l.Attrs().Alias; {
	case have == want:
		return nil
	case !r.Differs("link %s has no label", l.Attrs().Name):
		return nil
	}
	if err := r.nl.LinkSetAlias(l, want); err != nil {
		return node.Errorf(node.Internal, "cannot label link %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// labelPrefix starts the alias of croft's links.
const labelPrefix = "croft:"

// Up brings a link up.
func (r *Reconciler) Up(l netlink.Link) error {
	if l == nil || l.Attrs().Flags&net.FlagUp != 0 || !r.Differs("link %s is down", l.Attrs().Name) {
		return nil
	}
	if err := r.nl.LinkSetUp(l); err != nil {
		return node.Errorf(node.Internal, "cannot bring up link %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// Master makes l a port of the bridge.
func (r *Reconciler) Master(l, bridge netlink.Link) error {
	if l == nil || bridge == nil || l.Attrs().MasterIndex == bridge.Attrs().Index {
		return nil
	}
	if !r.Differs("link %s isn't on the bridge", l.Attrs().Name) {
		return nil
	}
	if err := r.nl.LinkSetMaster(l, bridge); err != nil {
		return node.Errorf(node.Internal, "cannot put link %s on the bridge: %w", l.Attrs().Name, err)
	}
	return nil
}

// Remove removes the link of that name, if there is one.
func (r *Reconciler) Remove(name string) error {
	l, err := r.Find(name)
	if err != nil || l == nil {
		return err
	}
	if err := r.nl.LinkDel(l); err != nil && !IsNoLink(err) {
		return node.Errorf(node.Internal, "cannot remove link %s: %w", name, err)
	}
	return nil
}

// Add makes a link.
func (r *Reconciler) Add(l netlink.Link) error { return r.nl.LinkAdd(l) }

// ForwardAtOnce takes the forward delay from a bridge's ports. It is of use to the spanning tree protocol alone: without that a port forwards at
// once, and all the same the kernel tells of a change when the delay is over, 15 seconds after each member has joined.
func ForwardAtOnce(r *Reconciler, bridge netlink.Link) error {
	return r.Do(func() error {
		change := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK) // the library's Bridge has no such member
		header := nl.NewIfInfomsg(unix.AF_UNSPEC)
		header.Index = int32(bridge.Attrs().Index)
		change.AddData(header)
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(bridge.Type()))
		info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_BR_FORWARD_DELAY, nl.Uint32Attr(0))
		change.AddData(info)
		if _, err := change.Execute(unix.NETLINK_ROUTE, 0); err != nil {
			return node.Errorf(node.Internal, "cannot set the forward delay of bridge %s: %w", bridge.Attrs().Name, err)
		}
		return nil
	})
}
