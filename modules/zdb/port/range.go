package port

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Range is the ports that containers may get, and the address to listen at.
type Range struct {
	First, Last uint16
	Listen      netip.Addr // the zero Addr for all of the machine's
}

// Choose finds a listener for a container that has no port yet: the one that its
// zdb has already, from before the record was lost, else one at the lowest free port
// of the range. taken are other containers' ports. NoSpace when there is none.
func (r Range) Choose(ctx context.Context, theirs []*os.File, taken func() []uint16) (*Listener, error) {
	for _, f := range theirs {
		at, here := boundHere(f)
		if here && alike(at.Addr(), r.Listen) && at.Port() >= r.First && at.Port() <= r.Last && !slices.Contains(taken(), at.Port()) {
			return adopt(f)
		}
	}
	var last error
	for port := int(r.First); port <= int(r.Last); port++ {
		if slices.Contains(taken(), uint16(port)) {
			continue
		}
		l, err := bind(ctx, r.Listen, uint16(port))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			last = err
		}
	}
	if last != nil {
		return nil, node.Errorf(node.Transient, "no port from %d to %d can be listened on: %w", r.First, r.Last, last)
	}
	return nil, node.Errorf(node.NoSpace, "all ports from %d to %d are taken", r.First, r.Last)
}

// Again makes the listener of a container's port: the one that its zdb has, else a new
// one. It is never at another port.
func (r Range) Again(ctx context.Context, port uint16, theirs []*os.File) (*Listener, error) {
	for _, f := range theirs {
		at, here := boundHere(f)
		if !here || at.Port() != port {
			continue
		}
		l, err := adopt(f)
		if err != nil || alike(at.Addr(), r.Listen) {
			return l, err
		}
		l.End() // its address is that of earlier settings
	}
	l, err := bind(ctx, r.Listen, port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, node.Errorf(node.Busy, "its port %d is taken by somebody else", port)
	case err != nil:
		return nil, node.Errorf(node.Transient, "its port %d can't be listened on: %w", port, err)
	}
	return l, nil
}
