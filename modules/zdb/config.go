package zdb

import (
	"net/netip"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// Config is the settings of a Module.
type Config struct {
	// StateDir is the node's folder for state that survives a reboot.
	StateDir string
	// FirstPort and LastPort are the range of containers' ports.
	FirstPort, LastPort uint16
	// Listen is the address that zdbs answer at; the zero Addr for all of the node's.
	Listen netip.Addr
	// IPv4 and IPv6 are shown as the node's addresses; the zero Addr for those of its
	// links.
	IPv4, IPv6 netip.Addr
	// OwnLinks are prefixes of the names of links that croft made: their addresses
	// aren't shown.
	OwnLinks []string
	Log      zerolog.Logger
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.StateDir):
		return node.Errorf(node.Invalid, "cannot open the zdb module: StateDir is %q, must be an absolute path", c.StateDir)
	case c.FirstPort == 0:
		return node.Errorf(node.Invalid, "cannot open the zdb module: FirstPort is 0, must be from 1 to 65535")
	case c.LastPort < c.FirstPort:
		return node.Errorf(node.Invalid, "cannot open the zdb module: LastPort is %d, must be at least FirstPort, which is %d", c.LastPort, c.FirstPort)
	case c.Listen.IsMulticast() || c.Listen.Zone() != "":
		return node.Errorf(node.Invalid, "cannot open the zdb module: Listen is %s, must be an address of this machine without a zone, or none", c.Listen)
	case c.IPv4.IsValid() && !(c.IPv4.Is4() && c.IPv4.IsGlobalUnicast()):
		return node.Errorf(node.Invalid, "cannot open the zdb module: IPv4 is %s, must be an IPv4 address that others reach, or none", c.IPv4)
	case c.IPv6.IsValid() && !(c.IPv6.Is6() && !c.IPv6.Is4In6() && c.IPv6.IsGlobalUnicast() && c.IPv6.Zone() == ""):
		return node.Errorf(node.Invalid, "cannot open the zdb module: IPv6 is %s, must be an IPv6 address that others reach, or none", c.IPv6)
	}
	return nil
}

// folder is where the module keeps its records.
func (c Config) folder() string { return filepath.Join(c.StateDir, "zdb") }

// lockName is the file in the module's folder that is locked while it is open.
const lockName = "lock"

// lock keeps other modules from the folder. Busy when one has it.
func (c Config) lock() (*filelock.Lock, error) {
	lock, err := filelock.Try(filepath.Join(c.folder(), lockName))
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot open the zdb module: another one has %s open", c.folder())
	}
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock the zdb module's folder: %w", err)
	}
	return lock, nil
}
