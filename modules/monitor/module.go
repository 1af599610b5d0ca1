package monitor

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// Config says how often to read and what not to tell.
type Config struct {
	// Interval is the time between readings; 0 means two seconds.
	Interval time.Duration
	// OwnPrefixes begin the names of interfaces that croft made, whose
	// addresses aren't the machine's; nil means DefaultOwnPrefixes.
	OwnPrefixes []string
	Log         zerolog.Logger
}

// Module reads the machine. New makes one; it is safe for concurrent use.
type Module struct {
	cfg Config
}

// New returns the module.
func New(cfg Config) (*Module, error) { return &Module{cfg: cfg}, nil }

// System is what goes on the bus as monitor.system.
func (m *Module) System() node.SystemMonitor { return nil }

// Host is what goes on the bus as monitor.host.
func (m *Module) Host() node.HostMonitor { return nil }
