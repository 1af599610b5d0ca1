package dial

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Exception is a refused destination that the operator opens to tenants. It holds
// either Prefix or Host.
type Exception struct {
	// Prefix opens its addresses. It opens nothing of a narrower refused range:
	// an exception for the farm's LAN doesn't open the node's own address in
	// it, nor a tenant's network that happens to lie there.
	Prefix netip.Prefix
	// Host opens every address that this name resolves to, at Port. It trusts the
	// name's DNS servers.
	Host string
	// Port is the only port opened; 0, with a Prefix only, is all of them.
	Port uint16
}

// ParseException reads "CIDR", "CIDR:port" or "host:port", where host is a name
// or an IP address (IPv6 in brackets). node.Invalid when it is none of them.
func ParseException(text string) (Exception, error) {
	e, why := readException(text)
	if why == "" {
		why = e.wrong()
	}
	if why != "" {
		return Exception{}, node.Errorf(node.Invalid, "cannot read exception %s: %s: allowed are CIDR, CIDR:port and host:port", shown(text), why)
	}
	return e, nil
}

func readException(text string) (e Exception, why string) {
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		bits, portText, hasPort := strings.Cut(text[i:], ":")
		prefix, err := netip.ParsePrefix(text[:i] + bits)
		if err != nil {
			return e, "it isn't a CIDR"
		}
		port, ok := parsePort(portText)
		if hasPort && !ok {
			return e, "its port isn't a number from 1 to 65535"
		}
		return Exception{Prefix: prefix, Port: port}, ""
	}
	t, why := readAddress(text)
	if why != "" {
		return e, why
	}
	if t.ip.IsValid() {
		return Exception{Prefix: netip.PrefixFrom(t.ip, t.ip.BitLen()), Port: t.port}, ""
	}
	return Exception{Host: t.name, Port: t.port}, ""
}

// Validate checks an exception that wasn't made by ParseException.
func (e Exception) Validate() error {
	if why := e.wrong(); why != "" {
		return node.Errorf(node.Invalid, "cannot use exception %s: %s", e, why)
	}
	return nil
}

func (e Exception) wrong() string {
	if e.Host != "" {
		t, why := parseHost(e.Host)
		switch {
		case e.Prefix.IsValid():
			return "it has a host and a prefix"
		case why != "" || t.name != e.Host:
			return "its host isn't a name in lower case"
		case e.Port == 0:
			return "a host needs a port"
		}
		return ""
	}
	switch p := e.Prefix; {
	case !p.IsValid():
		return "it has neither a host nor a prefix"
	case p.Addr().Is4In6():
		return "IPv4 is written as IPv4"
	case p != p.Masked():
		return "it has bits below its mask"
	}
	for _, r := range nonPublicRanges() {
		if within(r.prefix, e.Prefix) && r.prefix != e.Prefix {
			return "it is wider than " + r.String() + ", list each range by itself"
		}
	}
	return ""
}

// String writes the exception as ParseException reads it.
func (e Exception) String() string {
	text := e.Host
	if text == "" {
		text = e.Prefix.String()
	}
	if e.Port == 0 {
		return text
	}
	return text + ":" + strconv.Itoa(int(e.Port))
}

// opens reports whether the exception opens addr, which r refuses, to a target.
func (e Exception) opens(t target, addr netip.Addr, r addressRange) bool {
	if e.Port != 0 && e.Port != t.port {
		return false
	}
	if e.Host != "" {
		return e.Host == t.name
	}
	// A single address opens just that, also where r is the range of an IPv4
	// address that addr embeds.
	return e.Prefix.Contains(addr) && (e.Prefix.IsSingleIP() || within(e.Prefix, r.prefix))
}
