package monitor

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/croft-edge/croft/pkg/node"
)

// defaultInterval is the time between readings.
const defaultInterval = 2 * time.Second

// DefaultOwnPrefixes returns the prefixes of the names of interfaces that croft makes.
func DefaultOwnPrefixes() []string { return []string{"croft", "cr-"} }

// Config says how often to read and which interfaces to leave out.
type Config struct {
	// Interval is the time between readings; 0 means two seconds.
	Interval time.Duration
	// OwnPrefixes are the name prefixes of interfaces that croft made, whose
	// addresses aren't the machine's; nil means DefaultOwnPrefixes.
	OwnPrefixes []string
	Log         zerolog.Logger
}

// Module reads the machine. New makes one; it is safe for concurrent use.
type Module struct {
	cfg    Config
	system installed

	memory reading[*mem.VirtualMemoryStat]
	disks  reading[map[string]disk.IOCountersStat]
	nics   reading[[]net.IOCountersStat]
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
	m := &Module{cfg: cfg, system: installed{read: readSystem}}
	m.memory.read = mem.VirtualMemoryWithContext
	m.disks.read = func(ctx context.Context) (map[string]disk.IOCountersStat, error) {
		return disk.IOCountersWithContext(ctx)
	}
	m.nics.read = func(ctx context.Context) ([]net.IOCountersStat, error) { return net.IOCountersWithContext(ctx, true) }
	return m, nil
}

// System returns the bus object monitor.system.
func (m *Module) System() node.SystemMonitor { return system{m} }

// Host returns the bus object monitor.host.
func (m *Module) Host() node.HostMonitor { return host{m} }
