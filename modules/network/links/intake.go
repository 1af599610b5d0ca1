package links

import (
	"net"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Intake leads all frames that enter by the tap device port through an ifb device of
// that name, whose MTU in bytes is the port's, before the bridge and its rules see them.
// They come out of it as a network card would send them, and no faster than rate, in
// bytes a second (0 is no limit).
//
// A guest writes a virtio header before each frame: the kernel may still have to cut it
// into segments of a size that the guest chooses, and write a checksum at a place that
// the guest chooses. Without the ifb that happens behind the bridge's rules, which then
// have judged another frame than the one that arrives. The ifb offers no offload, so the
// kernel does both before.
func (r *Reconciler) Intake(port netlink.Link, name string, rate uint64) error {
	ifb, err := r.ifb(name, port.Attrs().MTU)
	if err != nil || ifb == nil {
		return err
	}
	way := lead{nl: r.nl, do: r.Do, differs: r.Differs}
	if err := way.noOffload(ifb); err != nil {
		return err
	}
	if err := r.LimitRate(ifb, rate); err != nil {
		return err
	}
	if err := r.Up(ifb); err != nil {
		return err
	}
	return way.through(port, ifb)
}

// intakeQueue is the number of frames that wait in an ifb without a rate.
const intakeQueue = 1000

// ifb returns the ifb device of that name. It is nil when the device is missing and the
// Reconciler only looks.
func (r *Reconciler) ifb(name string, mtu int) (netlink.Link, error) {
	l, err := r.Find(name)
	if err != nil || l != nil || !r.Differs("link %s is gone", name) {
		return l, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.TxQLen = name, mtu, intakeQueue
	if err := CannotLead(r.nl.LinkAdd(&netlink.Ifb{LinkAttrs: attrs})); err != nil {
		return nil, err
	}
	if l, err = r.Find(name); err == nil && l == nil {
		err = node.Errorf(node.Internal, "cannot make link %s: it isn't there", name)
	}
	return l, err
}

// lead is the way of a port's frames through an ifb.
type lead struct {
	nl *netlink.Handle
	// do runs a function in the namespace, differs is Reconciler.Differs.
	do      func(fn func() error) error
	differs func(format string, args ...any) bool
}

// noOffload makes the kernel complete the checksum of each frame that leaves by ifb,
// and cut it into its segments, which needs checksums, before ifb gets it.
func (l lead) noOffload(ifb netlink.Link) error {
	name := ifb.Attrs().Name
	offers, err := l.checksums(name, unix.ETHTOOL_GTXCSUM)
	if err != nil || !offers || !l.differs("link %s offers to complete checksums", name) {
		return err
	}
	_, err = l.checksums(name, unix.ETHTOOL_STXCSUM)
	return err
}

// checksums reads, or by the other command sets to false, whether a link offers to
// complete checksums.
func (l lead) checksums(name string, command uint32) (offers bool, err error) {
	err = l.do(func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		offers, err = ethtool(socket, name, command)
		return err
	})
	if err != nil {
		return false, node.Errorf(node.Internal, "cannot keep link %s from completing checksums: %w", name, err)
	}
	return offers, nil
}

// through leads all that enters by port to ifb. While that is mended the port is down, so
// that nothing gets round it.
func (l lead) through(port, ifb netlink.Link) error {
	name := port.Attrs().Name
	leads, err := l.leads(port, ifb)
	if err != nil || leads || !l.differs("what enters by link %s isn't led through %s", name, ifb.Attrs().Name) {
		return err
	}
	if err := l.nl.LinkSetDown(port); err != nil {
		return node.Errorf(node.Internal, "cannot take down link %s: %w", name, err)
	}
	port.Attrs().Flags &^= net.FlagUp
	at := netlink.QdiscAttrs{LinkIndex: port.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}
	// An earlier one goes with its filters. Without one it is an error of many kinds.
	_ = l.nl.QdiscDel(&netlink.Ingress{QdiscAttrs: at})
	if err := l.nl.QdiscAdd(&netlink.Ingress{QdiscAttrs: at}); err != nil {
		return CannotLead(err)
	}
	return CannotLead(l.nl.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: at.LinkIndex, Parent: at.Handle, Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{netlink.NewMirredAction(ifb.Attrs().Index)},
	}))
}

// leads reports whether the port's only filter is that of through.
func (l lead) leads(port, ifb netlink.Link) (bool, error) {
	filters, err := netns.Whole(func() ([]netlink.Filter, error) { return l.nl.FilterList(port, netlink.MakeHandle(0xffff, 0)) })
	if err != nil {
		return false, node.Errorf(node.Internal, "cannot list the filters of link %s: %w", port.Attrs().Name, err)
	}
	leads := 0
	for _, f := range filters {
		u, is := f.(*netlink.U32)
		if is && len(u.Actions) == 0 && u.Sel == nil {
			continue // its table, which the kernel lists too
		}
		if !is || f.Attrs().Protocol != unix.ETH_P_ALL || !matchesAll(u.Sel) || len(u.Actions) != 1 {
			return false, nil
		}
		to, is := u.Actions[0].(*netlink.MirredAction)
		if !is || to.MirredAction != netlink.TCA_EGRESS_REDIR || to.Ifindex != ifb.Attrs().Index {
			return false, nil
		}
		leads++
	}
	return leads == 1, nil
}

func matchesAll(sel *netlink.TcU32Sel) bool {
	if sel == nil {
		return false
	}
	for _, key := range sel.Keys {
		if key.Mask != 0 {
			return false
		}
	}
	return true
}

// CannotLead is the error of a kernel without what Intake needs; nil for nil.
func CannotLead(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return node.Errorf(node.Refused, "cannot check what a VM sends: this kernel lacks one of the modules %s", strings.Join(IntakeModules(), ", "))
	}
	return node.Errorf(node.Internal, "cannot lead what a VM sends through its check: %w", err)
}

// IntakeModules are the kernel's modules that Intake needs.
func IntakeModules() []string { return []string{"ifb", "sch_ingress", "cls_u32", "act_mirred"} }
