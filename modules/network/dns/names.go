package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	// domain is the domain of members' names in every network.
	domain = "croft.internal."
	// ttl is how many seconds an answer may be kept: members come and go.
	ttl = 10
)

// names has the names of one network's members. It is immutable: a change replaces
// the pointer to it. Names in it are in lower case and fully qualified.
type names struct {
	digest string
	// network is the network's name and a dot, or empty when it is no label.
	network string
	forward map[string][]netip.Addr
	reverse map[netip.Addr][]string
}

func newNames(z Zone) *names {
	n := &names{digest: z.Digest(), forward: map[string][]netip.Addr{}, reverse: map[netip.Addr][]string{}}
	if label := strings.ToLower(z.Network); isLabel(label) {
		n.network = label + "."
	}
	for name, ips := range z.Names {
		ips = plain(ips)
		n.forward[name+"."] = ips
		n.forward[name+"."+domain] = ips
		if n.network != "" {
			n.forward[name+"."+n.network] = ips
		}
		for _, ip := range ips {
			n.reverse[ip] = append(n.reverse[ip], name+"."+domain)
		}
	}
	for _, list := range n.reverse {
		slices.Sort(list)
	}
	return n
}

// found is a network's records of a name.
type found struct {
	// ours means that nobody else is asked; exists that the name is there, or
	// others below it.
	ours, exists bool
	records      []dns.RR
}

// lookup finds the network's own answer to a question.
func (n *names) lookup(q dns.Question) found {
	name := dns.CanonicalName(q.Name)
	if ips, ok := n.forward[name]; ok {
		return found{ours: true, exists: true, records: addresses(q, ips)}
	}
	if name == domain || n.network != "" && name == n.network {
		return found{ours: true, exists: true}
	}
	if part, exact, ok := reversed(name); ok {
		if !exact {
			return found{ours: withheld(part)}
		}
		return n.lookupReverse(q, part)
	}
	ours := dns.CountLabel(name) == 1 || dns.IsSubDomain(domain, name)
	return found{ours: ours}
}

// addresses are the records of the type that is asked for, under the name as
// it was asked for.
func addresses(q dns.Question, ips []netip.Addr) []dns.RR {
	var out []dns.RR
	for _, ip := range ips {
		header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: ttl}
		switch {
		case q.Qtype == dns.TypeA && ip.Is4():
			out = append(out, &dns.A{Hdr: header, A: ip.AsSlice()})
		case q.Qtype == dns.TypeAAAA && ip.Is6():
			out = append(out, &dns.AAAA{Hdr: header, AAAA: ip.AsSlice()})
		}
	}
	return out
}

func (n *names) lookupReverse(q dns.Question, part netip.Prefix) found {
	if part.IsSingleIP() {
		if list, ok := n.reverse[part.Addr()]; ok {
			return found{ours: true, exists: true, records: pointers(q, list)}
		}
		return found{ours: withheld(part)}
	}
	if !withheld(part) {
		return found{}
	}
	for ip := range n.reverse {
		if part.Contains(ip) {
			return found{ours: true, exists: true}
		}
	}
	return found{ours: true}
}

func pointers(q dns.Question, list []string) []dns.RR {
	if q.Qtype != dns.TypePTR {
		return nil
	}
	var out []dns.RR
	for _, name := range list {
		out = append(out, &dns.PTR{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}, Ptr: name})
	}
	return out
}
