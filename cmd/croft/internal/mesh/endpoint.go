package mesh

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/dial"
)

const endpointForm = `must be HOST:PORT with a port from 1 to 65535, such as 192.0.2.7:5000 or "[2001:db8::7]:5000"`

// checkEndpoint checks HOST:PORT; the error is without a subject.
func checkEndpoint(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || !portOK(port) || !hostOK(host) {
		return errors.Errorf("is %q, %s", text, endpointForm)
	}
	return nil
}

func portOK(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

func hostOK(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Zone() == "" && !addr.IsUnspecified() && !addr.IsMulticast()
	}
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, part := range parts {
		if !label.MatchString(part) {
			return false
		}
	}
	// A last label of digits means a malformed IPv4 address.
	digits := regexp.MustCompile(`^[0-9]+$`).MatchString(parts[len(parts)-1])
	return !digits && len(host) <= 253
}

// ParseEndpoint reads HOST or HOST:PORT; port is that of a bare HOST.
func ParseEndpoint(text string, port uint16) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if hostOK(bare) {
		return net.JoinHostPort(bare, strconv.Itoa(int(port))), nil
	}
	if err := checkEndpoint(text); err != nil {
		return "", errors.Errorf("the endpoint %s, or HOST alone, or none", err)
	}
	return text, nil
}

// Public reports whether an address can be reached from everywhere.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	for _, p := range dial.NonPublic() {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// Doubtful reports whether an endpoint is an address that nodes refuse to call
// unless their operators allow it.
func Doubtful(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && !Public(addr)
}
