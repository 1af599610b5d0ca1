package workload

import (
	"net/netip"
	"regexp"
	"strings"
)

func validateKubernetes(k *Kubernetes) error {
	if err := validateAddress("data.ip", k.IP); err != nil {
		return err
	}
	for i, ip := range k.MasterIPs {
		if err := validateAddress(index("data.master_ips", i), ip); err != nil {
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
		return refuse("data.host", d.Host, "a host name or an address")
	}
	return nil
}

// hostName accepts labels of letters, digits and inner hyphens.
func hostName(s string) bool {
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	for _, part := range strings.Split(strings.TrimSuffix(s, "."), ".") {
		if !label.MatchString(part) {
			return false
		}
	}
	return len(s) <= 253
}
