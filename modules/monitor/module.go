package monitor

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// defaultInterval is the time between readings.
const defaultInterval = 2 * time.Second

// DefaultOwnPrefixes begin the names of the interfaces that croft makes.
func DefaultOwnPrefixes() []string { return []string{"croft", "cr-"} }

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
	cfg    Config
	system installed
}

// New returns the module.
func New(cfg Config) (*Module, error) {
	if cfg.Interval < 0 {
		return nil, node.Errorf(node.Invalid, "cannot use monitor config: Interval is %s, must not be negative", cfg.Interval)
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.OwnPrefixes == nil {
		cfg.OwnPrefixes = DefaultOwnPrefixes()
	}
	return &Module{cfg: cfg, system: installed{read: readSystem}}, nil
}

// System is what goes on the bus as monitor.system.
func (m *Module) System() node.SystemMonitor { return system{m} }

// Host is what goes on the bus as monitor.host.
func (m *Module) Host() node.HostMonitor { return host{m} }
