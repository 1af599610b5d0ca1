package workload

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/croft-edge/croft/pkg/fielderror"
)

func validateKubernetes(r *Reservation, k *Kubernetes) error {
	if err := validateHash(r, "data.network_hash", k.NetworkHash); err != nil {
		return err
	}
	if err := validateAddress("data.ip", k.IP); err != nil {
		return err
	}
	for i, ip := range k.MasterIPs {
		if err := validateAddress(fielderror.Index("data.master_ips", i), ip); err != nil {
			return err
		}
	}
	return nil
}

func validateDebug(d *Debug) error {
	if _, err := netip.ParseAddr(d.Host); err == nil {
		return nil
	}
	if !hostName(d.Host) {
		return fielderror.New("data.host", d.Host, "a host name or an address")
	}
	return nil
}

// hostName accepts labels of letters, digits and inner hyphens. The last one
// isn't a number: resolvers take 10.1, 0x7f.1 or 2130706433 for addresses, not
// all of them for the same one.
func hostName(s string) bool {
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, part := range parts {
		if !label.MatchString(part) {
			return false
		}
	}
	return len(s) <= 253 && !number(parts[len(parts)-1])
}

// number accepts decimal and octal numbers, and hexadecimal ones after 0x.
func number(s string) bool {
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		return strings.Trim(s[2:], "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(s, "0123456789") == ""
}

// VMSize is what a Kubernetes VM has.
type VMSize struct {
	// CPU is in cores, Memory and Disk in bytes.
	CPU    uint64
	Memory uint64
	Disk   uint64
}

// vmSizes are the sizes from number 1 on; docs/kubernetes/sizes.md shows them.
var vmSizes = [...]VMSize{
	{CPU: 1, Memory: 2 * GiB, Disk: 50 * GiB},
	{CPU: 2, Memory: 4 * GiB, Disk: 100 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 25 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 50 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 200 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 50 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 100 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 400 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 100 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 200 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 800 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 200 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 400 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 800 * GiB},
	{CPU: 1, Memory: GiB, Disk: 8 * GiB}, // a worker on a small machine
}

// MaxVMSize is the largest number of a size.
const MaxVMSize = len(vmSizes)

// VMSizeOf returns the size of that number; false if there is none.
func VMSizeOf(number uint8) (VMSize, bool) {
	if number < 1 || int(number) > len(vmSizes) {
		return VMSize{}, false
	}
	return vmSizes[number-1], true
}
