package links

import (
	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Rate bounds the traffic that a container sends and receives on each of its
// interfaces, in bytes a second with the headers of frames; 0 is no limit.
type Rate struct{ Send, Receive uint64 }

// Bounds of a rate that isn't 0, in bytes a second.
const (
	LeastRate = 64 << 10
	MostRate  = 1 << 40
)

// Valid reports whether both are 0 or within the bounds.
func (r Rate) Valid() bool {
	for _, one := range []uint64{r.Send, r.Receive} {
		if one != 0 && (one < LeastRate || one > MostRate) {
			return false
		}
	}
	return true
}

// rateHandle marks the queueing disciplines that this module has made.
const rateHandle = 0xc7f0 << 16

// bucket is the token bucket that holds the packets that leave a link to a rate, in
// bytes a second. It passes a sixteenth of a second's at once, and queues as much;
// at least two of the largest packets that the kernel hands over in one piece, and
// at most 4 MiB, since the queue is in the node's memory.
func bucket(link int, rate uint64) *netlink.Tbf {
	room := min(max(rate/16, 128<<10), 4<<20)
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: rateHandle, Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Limit: uint32(room), Buffer: netlink.Xmittime(rate, uint32(room)),
	}
}

// keeps reports whether a queueing discipline holds its link to that rate.
func keeps(q netlink.Qdisc, rate uint64) bool {
	have, is := q.(*netlink.Tbf)
	want := bucket(0, rate)
	return is && have.Rate == want.Rate && have.Limit == want.Limit && have.Buffer == want.Buffer && have.Peakrate == 0
}

// LimitRate holds the packets that leave l to so many bytes a second. A rate of 0
// removes croft's limit; a queueing discipline of somebody else stays then.
func (r *Reconciler) LimitRate(l netlink.Link, rate uint64) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	root, err := r.qdiscOf(l)
	if err != nil {
		return node.Errorf(node.Internal, "cannot look at the rate of link %s: %w", name, err)
	}
	mine := root != nil && root.Attrs().Handle == rateHandle
	switch {
	case rate == 0 && !mine, rate != 0 && keeps(root, rate):
		return nil
	case rate == 0 && !r.Differs("link %s has a rate", name):
		return nil
	case rate != 0 && !r.Differs("link %s isn't held to %d bytes a second", name, rate):
		return nil
	}
	if _, same := root.(*netlink.Tbf); mine && (rate == 0 || !same) {
		if err := r.nl.QdiscDel(root); err != nil && !errors.Is(err, unix.ENOENT) {
			return node.Errorf(node.Internal, "cannot let link %s go of its rate: %w", name, err)
		}
	}
	if rate == 0 {
		return nil
	}
	return CannotHold(name, rate, r.nl.QdiscReplace(bucket(l.Attrs().Index, rate)))
}

// CannotHold is the error of a link that can't be held to a rate; nil for nil.
func CannotHold(link string, rate uint64, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return node.Errorf(node.Refused, "cannot hold link %s to %d bytes a second: this kernel has no token bucket (module sch_tbf), which container-send-rate and container-receive-rate need", link, rate)
	}
	if err != nil {
		return node.Errorf(node.Internal, "cannot hold link %s to %d bytes a second: %w", link, rate, err)
	}
	return nil
}

// qdiscOf is a link's root queueing discipline, nil when there is none.
func (r *Reconciler) qdiscOf(l netlink.Link) (netlink.Qdisc, error) {
	if r.mode == Look {
		s, err := r.snapshot()
		if err != nil {
			return nil, err
		}
		return s.qdiscs[l.Attrs().Index], nil
	}
	roots, err := r.rootQdiscs(l)
	return roots[l.Attrs().Index], err
}

// rootQdiscs are the root queueing disciplines by the link's index: of one, or of
// all when l is nil.
func (r *Reconciler) rootQdiscs(l netlink.Link) (map[int]netlink.Qdisc, error) {
	all, err := netns.Whole(func() ([]netlink.Qdisc, error) { return r.nl.QdiscList(l) })
	out := map[int]netlink.Qdisc{}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			out[q.Attrs().LinkIndex] = q
		}
	}
	return out, err
}

// Try says why this kernel can't hold links to the rates, empty when it can or when
// there are none. It tries on a link of a namespace that ends at once.
func (r Rate) Try() string {
	if r == (Rate{}) {
		return ""
	}
	err := netns.New(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, rate := range []uint64{r.Send, r.Receive} {
			if rate == 0 {
				continue
			}
			if err := CannotHold("lo", rate, netlink.QdiscReplace(bucket(lo.Attrs().Index, rate))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "cannot limit containers to their rates: " + err.Error()
	}
	return ""
}
