package daemon

import (
	"net/netip"

	"github.com/croft-edge/croft/pkg/dial"
)

// newDialer makes the process's one way to addresses that tenants name. It
// starts nothing, and connects to nothing by itself.
func (d *daemon) newDialer() (*dial.Dialer, error) {
	return dial.New(dial.Config{Own: d.ownRanges, Allow: d.AllowPrivate, Log: d.quiet()})
}

// ownRanges are the node's and its tenants' ranges that aren't on an interface
// of this machine; those that are, the dialer reads itself.
func (d *daemon) ownRanges() []netip.Prefix { return []netip.Prefix{d.NetworkUplinks} }
