package network

import (
	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Rate is what a container may send and receive on each of its interfaces, in bytes
// a second with the headers of frames; 0 is no limit.
type Rate struct{ Send, Receive uint64 }

// Bounds of a rate that isn't 0, in bytes a second.
const (
	LeastRate = 64 << 10
	MostRate  = 1 << 40
)

func (r Rate) valid() bool {
	for _, one := range []uint64{r.Send, r.Receive} {
		if one != 0 && (one < LeastRate || one > MostRate) {
			return false
		}
	}
	return true
}

// rateHandle marks the queueing disciplines that this module has made.
const rateHandle = 0xc7f0 << 16

// bucket is the discipline that holds a link to a rate of what leaves it, in bytes a
// second. It lets a sixteenth of a second through at once, and keeps as much
// waiting; but room for two of the largest packets that the kernel hands over
// in one piece, and at most 4 MiB, since what waits is the node's memory.
func bucket(link int, rate uint64) *netlink.Tbf {
	room := min(max(rate/16, 128<<10), 4<<20)
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: rateHandle, Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Limit: uint32(room), Buffer: netlink.Xmittime(rate, uint32(room)),
	}
}

// keeps reports whether a link's discipline holds it to that rate.
func keeps(q netlink.Qdisc, rate uint64) bool {
	have, is := q.(*netlink.Tbf)
	want := bucket(0, rate)
	return is && have.Rate == want.Rate && have.Limit == want.Limit && have.Buffer == want.Buffer && have.Peakrate == 0
}

// rate holds what leaves l to so many bytes a second, or lets go of it when that
// is 0: a discipline that isn't croft's stays then.
func (p *plumber) rate(l netlink.Link, rate uint64) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	root, err := p.qdiscOf(l)
	if err != nil {
		return node.Errorf(node.Internal, "cannot look at the rate of link %s: %w", name, err)
	}
	mine := root != nil && root.Attrs().Handle == rateHandle
	switch {
	case rate == 0 && !mine, rate != 0 && keeps(root, rate):
		return nil
	case rate == 0 && !p.differs("link %s has a rate", name):
		return nil
	case rate != 0 && !p.differs("link %s isn't held to %d bytes a second", name, rate):
		return nil
	}
	if _, same := root.(*netlink.Tbf); mine && (rate == 0 || !same) {
		if err := p.nl.QdiscDel(root); err != nil && !errors.Is(err, unix.ENOENT) {
			return node.Errorf(node.Internal, "cannot let link %s go of its rate: %w", name, err)
		}
	}
	if rate == 0 {
		return nil
	}
	return cannotHold(name, rate, p.nl.QdiscReplace(bucket(l.Attrs().Index, rate)))
}

// cannotHold says why a link can't be held to a rate; nil for nil.
func cannotHold(link string, rate uint64, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return node.Errorf(node.Refused, "cannot hold link %s to %d bytes a second: this kernel has no token bucket (module sch_tbf), which container-send-rate and container-receive-rate need", link, rate)
	}
	if err != nil {
		return node.Errorf(node.Internal, "cannot hold link %s to %d bytes a second: %w", link, rate, err)
	}
	return nil
}

// qdiscOf is the discipline of what leaves a link, nil when there is none.
func (p *plumber) qdiscOf(l netlink.Link) (netlink.Qdisc, error) {
	if p.look {
		s, err := p.see()
		if err != nil {
			return nil, err
		}
		return s.qdiscs[l.Attrs().Index], nil
	}
	roots, err := p.roots(l)
	return roots[l.Attrs().Index], err
}

// roots are the disciplines of what leaves links, by the link's index: of one, or of
// all when l is nil.
func (p *plumber) roots(l netlink.Link) (map[int]netlink.Qdisc, error) {
	all, err := netns.Whole(func() ([]netlink.Qdisc, error) { return p.nl.QdiscList(l) })
	out := map[int]netlink.Qdisc{}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			out[q.Attrs().LinkIndex] = q
		}
	}
	return out, err
}

// tryRates says why this kernel can't hold links to the rates, empty when it can
// or when there are none. It tries on a link that goes at once.
func (c Config) tryRates() string {
	if c.Rate == (Rate{}) {
		return ""
	}
	err := netns.New(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, rate := range []uint64{c.Rate.Send, c.Rate.Receive} {
			if rate == 0 {
				continue
			}
			if err := cannotHold("lo", rate, netlink.QdiscReplace(bucket(lo.Attrs().Index, rate))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "containers can't be held to their rates: " + err.Error()
	}
	return ""
}
