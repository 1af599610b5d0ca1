package nocloud

import (
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/fielderror"
)

const (
	maxHostname = 64  // HOST_NAME_MAX of Linux
	maxLabel    = 63  // RFC 1035
	maxDomain   = 253 // RFC 1035
	maxID       = 128 // cloud-init makes a folder of this name
	maxPath     = 4095
	minMTU      = 1280 // RFC 8200: IPv6 needs it
	maxMTU      = 65535
)

// Validate returns a *fielderror.Error that names the first field that can't be written. Sizes of the encoded
// documents are checked when they are written.
func (c Config) Validate() error {
	if !isID(c.InstanceID) {
		return fielderror.New("InstanceID", c.InstanceID, "1 to %d letters, digits, dots, hyphens and underscores, the first a letter or digit", maxID)
	}
	if !isDomain(c.Hostname, maxHostname) {
		return fielderror.New("Hostname", c.Hostname, "labels of letters, digits and inner hyphens, at most %d bytes", maxHostname)
	}
	if err := few("Interfaces", len(c.Interfaces)); err != nil {
		return err
	}
	macs := map[string]bool{}
	for i, n := range c.Interfaces {
		at := fielderror.Index("Interfaces", i)
		if err := n.validate(at); err != nil {
			return err
		}
		if macs[n.MAC.String()] {
			return fielderror.New(at+".MAC", n.MAC.String(), "another one than the other interfaces have")
		}
		macs[n.MAC.String()] = true
	}
	if err := few("SSHKeys", len(c.SSHKeys)); err != nil {
		return err
	}
	for i, key := range c.SSHKeys {
		if len(key) == 0 || len(key) > MaxKey || !isLine(key) {
			return fielderror.New(fielderror.Index("SSHKeys", i), key, "1 to %d bytes of printable text on one line", MaxKey)
		}
	}
	return validateFiles(c.Files)
}

func (n Interface) validate(at string) error {
	if len(n.MAC) != 6 || n.MAC[0]&1 != 0 || n.MAC.String() == "00:00:00:00:00:00" {
		return fielderror.New(at+".MAC", n.MAC.String(), "a unicast hardware address of 6 bytes")
	}
	for field, length := range map[string]int{".Addresses": len(n.Addresses), ".DNS": len(n.DNS), ".Search": len(n.Search)} {
		if err := few(at+field, length); err != nil {
			return err
		}
	}
	seen := map[netip.Addr]bool{}
	for i, p := range n.Addresses {
		if !p.IsValid() || !isHost(p.Addr()) || seen[p.Addr()] {
			return fielderror.New(fielderror.Index(at+".Addresses", i), p.String(), "an address with the length of its network, such as 10.1.2.3/24, there once")
		}
		seen[p.Addr()] = true
	}
	if err := n.validateGateways(at + ".Gateways"); err != nil {
		return err
	}
	for i, a := range n.DNS {
		if !isHost(a) {
			return fielderror.New(fielderror.Index(at+".DNS", i), a.String(), "an IP address without a zone")
		}
	}
	for i, domain := range n.Search {
		if !isDomain(domain, maxDomain) {
			return fielderror.New(fielderror.Index(at+".Search", i), domain, "labels of letters, digits and inner hyphens, at most %d bytes", maxDomain)
		}
	}
	if n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU) {
		return fielderror.New(at+".MTU", n.MTU, "0, or %d to %d", minMTU, maxMTU)
	}
	return nil
}

func (n Interface) validateGateways(at string) error {
	families := map[bool]bool{}
	for i, gateway := range n.Gateways {
		at := fielderror.Index(at, i)
		if !isHost(gateway) || !n.reaches(gateway) {
			return fielderror.New(at, gateway.String(), "another address in the network of one of the interface's, or a link-local IPv6 address")
		}
		if families[gateway.Is4()] {
			return fielderror.New(at, gateway.String(), "the only gateway of IPv4 or of IPv6")
		}
		families[gateway.Is4()] = true
	}
	return nil
}

// reaches reports whether a gateway can be spoken to on the link.
func (n Interface) reaches(gateway netip.Addr) bool {
	near := gateway.Is6() && gateway.IsLinkLocalUnicast()
	for _, p := range n.Addresses {
		if p.Addr() == gateway {
			return false
		}
		near = near || p.Contains(gateway)
	}
	return near
}

func validateFiles(files []File) error {
	if err := few("Files", len(files)); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, f := range files {
		at := fielderror.Index("Files", i)
		if !strings.HasPrefix(f.Path, "/") || f.Path == "/" || path.Clean(f.Path) != f.Path || len(f.Path) > maxPath || !isLine(f.Path) || seen[f.Path] {
			return fielderror.New(at+".Path", f.Path, "an absolute, clean path of printable text, there once")
		}
		seen[f.Path] = true
		if f.Mode&^fs.ModePerm != 0 {
			return fielderror.New(at+".Mode", f.Mode, "permission bits only")
		}
	}
	return nil
}

func few(field string, length int) error {
	if length > MaxItems {
		return fielderror.New(field, length, "at most %d items", MaxItems)
	}
	return nil
}

// isHost reports whether an address is one of a single host, as documents write it.
func isHost(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() && a.Zone() == ""
}

func isID(s string) bool {
	if s == "" || len(s) > maxID || !isAlphanumeric(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && !strings.ContainsRune("._-", rune(s[i])) {
			return false
		}
	}
	return true
}

func isDomain(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if s[i] != '-' && !isAlphanumeric(s[i]) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isLine reports whether s is printable text without line breaks.
func isLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
