package zdb

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// familyPatience is how long a node may be without addresses of IPv4, or of IPv6, before users who were told one are told the other's: leases end, and at a
// boot router advertisements come before them.
const familyPatience = 10 * time.Minute

// errNoAddress: without a network nobody reaches the node.
var errNoAddress = node.Errorf(node.Transient, "the node has no address at which it can be reached")

// addresses remembers since when the node has no address of a family. The zero value is ready for use.
type addresses struct {
	mu   sync.Mutex
	lost [2]time.Time // of IPv4 and IPv6; zero while it has one
}

// current is the address at which users reach a zdb, given the one that the namespace's user was told; empty if there is none. They keep the one that they
// were told while the node has it, or no address of its family for a short time only, or none at all.
func (a *addresses) current(s node.ZDBServer, told string) string {
	all := [2]string{s.IPv4, s.IPv6}
	absent := a.absent(all)
	ip, err := netip.ParseAddr(told)
	if err != nil {
		return cmp.Or(all[0], all[1])
	}
	own, other := 0, 1
	if ip.Is6() {
		own, other = 1, 0
	}
	switch {
	case told == all[own] || all[own] == "" && (all[other] == "" || absent[own] < familyPatience):
		return told
	case all[own] != "":
		return all[own]
	}
	return all[other]
}

// absent is for how long the node has had no address of IPv4 and of IPv6; 0 while it has one.
func (a *addresses) absent(all [2]string) (out [2]time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, address := range all {
		switch {
		case address != "":
			a.lost[i] = time.Time{}
		case a.lost[i].IsZero():
			a.lost[i] = time.Now()
		default:
			out[i] = time.Since(a.lost[i])
		}
	}
	return out
}

// address is where a namespace's user reaches a zdb.
func (p *servers) address(s node.ZDBServer, namespace string) (string, error) {
	homes, err := p.Homes.All()
	if err != nil {
		return "", err
	}
	if now := p.addresses.current(s, homes[namespace].Address); now != "" {
		return now, nil
	}
	return "", errNoAddress
}

// moved says that a zdb is reached at another address than the namespace's user was told; empty while it isn't.
func (p *servers) moved(s node.ZDBServer, told string) string {
	if now := p.addresses.current(s, told); told != "" && now != told {
		return fmt.Sprintf("its user was told the address %s, the node has %s", told, now)
	}
	return ""
}
