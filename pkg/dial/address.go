package dial

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	maxName  = 253
	maxLabel = 63
	// maxAddress is the length of a name, its trailing dot, a colon and a port.
	maxAddress = maxName + 1 + 1 + 5
	// maxShown is the most of an address that an error repeats.
	maxShown = 80
)

// target is a tenant's destination: an IP or a name, and a port.
type target struct {
	// ip is set when the host is a literal; an IPv4-mapped one is IPv4.
	ip netip.Addr
	// name is lower case and has no trailing dot; empty when ip is set.
	name string
	port uint16
}

func (t target) host() string {
	if t.ip.IsValid() {
		return t.ip.String()
	}
	return t.name
}

func (t target) String() string {
	return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port)))
}

// parseAddress reads "host:port". Only one notation of a host is allowed, since some
// resolver or kernel reads each further one (octal, decimal, short IPv4 forms,
// zones) differently from this check.
func parseAddress(address string) (target, error) {
	t, why := readAddress(address)
	if why != "" {
		return target{}, node.Errorf(node.Invalid, "cannot dial %s: %s", shown(address), why)
	}
	return t, nil
}

// readAddress returns the reason when address isn't valid.
func readAddress(address string) (target, string) {
	if len(address) > maxAddress {
		return target{}, "it is longer than " + strconv.Itoa(maxAddress) + " bytes"
	}
	if strings.Contains(address, "@") {
		return target{}, "a user has no place in an address: allowed is host:port"
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return target{}, "allowed is host:port, with an IPv6 address in brackets"
	}
	port, ok := parsePort(portText)
	if !ok {
		return target{}, "port " + shown(portText) + " isn't a number from 1 to 65535"
	}
	if strings.HasPrefix(address, "[") != strings.Contains(host, ":") {
		return target{}, "allowed in brackets is an IPv6 address, and only there"
	}
	t, why := parseHost(host)
	t.port = port
	return t, why
}

// parseHost reads an IP or a name, and returns the reason when it is neither.
func parseHost(host string) (target, string) {
	if strings.Contains(host, "%") {
		return target{}, "an address with a zone leads to a link of this node"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return target{ip: ip.Unmap()}, ""
	}
	if strings.Contains(host, ":") {
		return target{}, "host " + shown(host) + " isn't an IPv6 address"
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if why := badName(name); why != "" {
		return target{}, "host " + shown(host) + " is neither an IP address nor a name: " + why
	}
	return target{name: name}, ""
}

// badName returns the reason when name isn't a host name; empty when it is one. Many
// programs read a name whose last label is a number as an IPv4 address ("127.1",
// "0x7f.1", "2130706433"); no top-level domain is one.
func badName(name string) string {
	if name == "" {
		return "it is empty"
	}
	if len(name) > maxName {
		return "it is longer than " + strconv.Itoa(maxName) + " bytes"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if why := badLabel(label); why != "" {
			return why
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "it ends in a number; an IPv4 address is four decimal numbers without leading zeros"
	}
	return ""
}

func badLabel(label string) string {
	switch {
	case label == "":
		return "a label is empty"
	case len(label) > maxLabel:
		return "a label is longer than " + strconv.Itoa(maxLabel) + " bytes"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "a label starts or ends with a hyphen"
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "allowed are letters, digits, hyphens and dots; other scripts in their xn-- form"
		}
	}
	return ""
}

// isNumber reports whether a label of a name reads as a decimal, octal or
// hexadecimal number.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func parsePort(text string) (uint16, bool) {
	if text == "" || text[0] < '1' || text[0] > '9' {
		return 0, false
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err == nil
}

// shown quotes a tenant's text, shortened: it ends up in results and logs.
func shown(text string) string {
	if len(text) > maxShown {
		return strconv.Quote(text[:maxShown]) + "…"
	}
	return strconv.Quote(text)
}
