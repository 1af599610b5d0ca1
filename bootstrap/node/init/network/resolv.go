package network

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

// mostResolvers is how many name servers resolvers read.
const mostResolvers = 3

// join joins what the interfaces' networks say, the first one's first. Name servers that the operator has set are used alone.
func join(set, given []*lease.Lease) (dns []netip.Addr, search, ntp []string) {
	servers := func(leases []*lease.Lease) {
		for _, l := range leases {
			dns = addNew(dns, l.DNS, mostResolvers)
		}
	}
	servers(set)
	if len(dns) == 0 {
		servers(given)
	}
	for _, l := range given {
		search = addNew(search, l.Search, lease.MostDomains)
		ntp = addNew(ntp, l.NTP, lease.MostServers)
	}
	return dns, search, ntp
}

func addNew[T comparable](to, more []T, most int) []T {
	for _, m := range more {
		if !slices.Contains(to, m) && len(to) < most {
			to = append(to, m)
		}
	}
	return to
}

// resolvers is the text of resolv.conf.
func resolvers(dns []netip.Addr, search []string) string {
	var text strings.Builder
	for _, a := range dns {
		fmt.Fprintln(&text, "nameserver", a)
	}
	if len(search) > 0 {
		fmt.Fprintln(&text, "search", strings.Join(search, " "))
	}
	return text.String()
}

// writeResolvers writes resolv.conf if it changes. Without name servers it stays as it is: old ones are better than none.
func writeResolvers(path string, dns []netip.Addr, search []string) error {
	text := resolvers(dns, search)
	if have, err := os.ReadFile(path); len(dns) == 0 || err == nil && string(have) == text {
		return nil
	}
	return atomicfile.WriteFile(path, []byte(text), 0o644)
}
