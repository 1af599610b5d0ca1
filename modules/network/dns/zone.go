package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// maxLabel is the length of a DNS label (RFC 1035).
const maxLabel = 63

// Zone is the names of one network resource.
type Zone struct {
	// ID is the network resource's key.
	ID string
	// Namespace is the path of its network namespace: a file that keeps it.
	Namespace string
	// Network is the network's name, of any script. Members are also known as
	// NAME.NETWORK when it is a DNS label, in whatever case.
	Network string
	// Names are the members' names, and their IPv4 and IPv6 addresses. A name
	// shared by two members has the addresses of both.
	Names map[string][]netip.Addr
	// Servers are the name servers that are asked for other names, in this order; none are those of Config.
	Servers []netip.AddrPort
}

// Validate names the value that is wrong. node.Invalid.
func (z Zone) Validate() error {
	if z.ID == "" || z.Namespace == "" {
		return node.Errorf(node.Invalid, "cannot serve the names of network %q: ID is %q and Namespace %q: both are needed", z.Network, z.ID, z.Namespace)
	}
	for _, name := range slices.Sorted(maps.Keys(z.Names)) {
		if err := ValidName(name); err != nil {
			return node.Errorf(node.Invalid, "cannot serve the names of network resource %s: %w", z.ID, err)
		}
		for _, ip := range z.Names[name] {
			if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
				return node.Errorf(node.Invalid, "cannot serve the names of network resource %s: %s has the address %q: allowed is the address of one host", z.ID, name, ip.String())
			}
		}
	}
	for _, s := range z.Servers {
		if !usable(s) {
			return node.Errorf(node.Invalid, "cannot serve the names of network resource %s: Servers has %q: allowed is the address of one host and a port from 1 to 65535", z.ID, s.String())
		}
	}
	return nil
}

// Digest is the hex SHA-256 of the zone's names, addresses and servers: the same for two
// zones with the same names, whatever their order. ZoneStatus has the digest of the
// names being served.
func (z Zone) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "network %q\n", z.Network)
	for _, name := range slices.Sorted(maps.Keys(z.Names)) {
		fmt.Fprintf(&b, "%q %v\n", name, plain(z.Names[name]))
	}
	if len(z.Servers) > 0 {
		fmt.Fprintf(&b, "servers %v\n", z.Servers)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// ZoneStatus is how the service of one namespace is.
type ZoneStatus struct {
	ID        string
	Namespace string
	// NamespaceInode is the inode of the namespace being listened in. When the
	// path leads to another one, Set listens there.
	NamespaceInode uint64
	// Listening says whether all sockets are being read; Err why not.
	Listening bool
	Err       string
	// Digest is Zone.Digest of the names being served.
	Digest string
	// Queries counts the queries received. Failures counts those answered
	// SERVFAIL: no name server answered, or too many queries were waiting.
	// Dropped are the queries and connections beyond the limits, but for those
	// that the kernel dropped before they were read.
	Queries  uint64
	Failures uint64
	Dropped  uint64
}

// ValidName accepts names that members may have: one DNS label of lower-case
// letters, digits and inner hyphens. node.Invalid.
func ValidName(name string) error {
	if isLabel(name) {
		return nil
	}
	return node.Errorf(node.Invalid, "cannot use the name %q: allowed is a DNS label: 1 to %d of a-z, 0-9 and -, not first or last a -", shorten(name), maxLabel)
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// shorten keeps an error short, whatever somebody called a member.
func shorten(s string) string {
	if len(s) <= 2*maxLabel {
		return s
	}
	return strings.ToValidUTF8(s[:2*maxLabel], "") + "…"
}

// plain sorts addresses, each once, IPv4-mapped ones as IPv4.
func plain(ips []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.Unmap())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
