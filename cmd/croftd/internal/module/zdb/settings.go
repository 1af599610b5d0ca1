package zdb

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// settings are those of the module.
func settings() []config.Setting {
	return config.InGroup("zdb", []config.Setting{
		{Name: "zdb-ports", Kind: config.Text, Default: "9900-9963", Help: "TCP ports of zdb containers, one each; users' containers reach them too", ReadBy: []string{"network", "zdb"},
			Set: config.Matching(`[0-9]+(-[0-9]+)?`, zdbPorts)},
		{Name: "zdb-listen", Kind: config.Text, Default: "", Help: "the node's address that zdb containers answer at; empty: all of them",
			Set: ownAddress(func(c *config.Config) *netip.Addr { return &c.ZDB.Listen })},
		{Name: "zdb-address", Kind: config.List, Default: "", Help: "addresses at which users reach their namespaces, one IPv4 or IPv6 or one of each; empty: the machine's own, public ones if it has any",
			Set: config.Parsed(zdbAddresses)},
		{Name: "zdb-memory", Kind: config.Size, Default: "1GiB", Help: "memory of a zdb container; half of it is for keys, about 30 bytes each in user mode", ReadBy: []string{config.Process},
			Set: config.SetSizeFrom(func(c *config.Config) *uint64 { return &c.ZDB.Memory }, 64<<20, "64MiB")},
		{Name: "zdb-cpu", Kind: config.Number, Default: "2", Help: "cores that a zdb container may use; it answers with one", ReadBy: []string{config.Process},
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.ZDB.CPU }, 1, 1024)},
		{Name: "zdb-sync", Kind: config.Switch, Default: "false", Help: "answer a write only once it is on the disk: a power cut then loses none that was answered, and each write waits for the disk; for containers that start from now on", ReadBy: []string{config.Process},
			Set: config.SetSwitch(func(c *config.Config) *bool { return &c.ZDB.Sync })},
	})
}

// zdbPorts reads a range of ports.
func zdbPorts(c *config.Config, text string) error {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 16)
	last, lastErr := strconv.ParseUint(to, 10, 16)
	if err != nil || lastErr != nil || first == 0 || last < first {
		return errors.New("ports such as 9900-9963, from 1 to 65535, the lower one first")
	}
	c.ZDB.FirstPort, c.ZDB.LastPort = uint16(first), uint16(last)
	return nil
}

// ownAddress reads one address; an empty text is none.
func ownAddress(field func(*config.Config) *netip.Addr) config.Setter {
	return config.Parsed(func(c *config.Config, text string) error {
		*field(c) = netip.Addr{}
		if text == "" {
			return nil
		}
		a, ok := unicast(text)
		if !ok {
			return errors.New("an IPv4 or IPv6 address that others reach, or empty")
		}
		*field(c) = a
		return nil
	})
}

func unicast(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Zone() == "" && !a.Is4In6() && a.IsGlobalUnicast()
}

// zdbAddresses reads at most one address of each family.
func zdbAddresses(c *config.Config, text string) error {
	c.ZDB.IPv4, c.ZDB.IPv6 = netip.Addr{}, netip.Addr{}
	for _, item := range config.Split(text) {
		a, ok := unicast(item)
		at := &c.ZDB.IPv6
		if a.Is4() {
			at = &c.ZDB.IPv4
		}
		if !ok || at.IsValid() {
			return errors.Errorf("at most one IPv4 and one IPv6 address that others reach; %q isn't", item)
		}
		*at = a
	}
	return nil
}
