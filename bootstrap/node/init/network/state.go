package network

import (
	"net/netip"
	"slices"
	"time"
)

// State is what the machine's network is now, for people and for chrony.
type State struct {
	Interfaces []Interface
	// DNS, Search and NTP are joined over the interfaces, the first one's first, as resolv.conf has them.
	DNS    []netip.Addr
	Search []string
	NTP    []string
	// Problem is why resolv.conf couldn't be written; empty if it was.
	Problem string
}

// Interface is one of the machine's interfaces.
type Interface struct {
	Name    string
	MAC     string
	Carrier bool
	MTU     int
	// Addresses and Gateways are the kernel's, whoever set them.
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	// DNS are the name servers that its networks gave.
	DNS []netip.Addr
	// Server4 and Server6 gave the leases; Ends4 and Ends6 are when these end: zero for never or no lease.
	Server4, Server6 string
	Ends4, Ends6     time.Time
	// Problem is what failed last and hasn't worked since; empty for nothing.
	Problem string
}

// State reads the network's state. It asks the kernel, and doesn't wait for the network.
func (n *Network) State() State {
	workers := n.ranked()
	s := State{}
	s.DNS, s.Search, s.NTP = joined(workers)
	for _, w := range workers {
		s.Interfaces = append(s.Interfaces, w.state())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Problem = n.problem
	return s
}

// state is one interface's.
func (w *worker) state() Interface {
	w.mu.Lock()
	out := Interface{Name: w.link.name, MAC: w.link.mac.String(), Carrier: w.link.carrier, MTU: w.link.mtu, Problem: w.problem()}
	for _, l := range w.leases() {
		for _, a := range l.DNS {
			if !slices.Contains(out.DNS, a) {
				out.DNS = append(out.DNS, a)
			}
		}
	}
	if w.four.lease != nil {
		out.Server4, out.Ends4 = w.four.lease.Server, wall(w.four.lease.End())
	}
	if w.six.lease != nil {
		out.Server6, out.Ends6 = w.six.lease.Server, wall(w.six.lease.End())
	}
	w.mu.Unlock()
	out.Addresses, out.Gateways = w.kernel.shown(w.index)
	return out
}

// wall is a moment of the monotonic clock by the wall clock as it is now: that may have been set since.
func wall(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return time.Now().Add(time.Until(at)).Truncate(time.Second)
}
