package carrier

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// ServeConfig is the configuration of a carrier process.
type ServeConfig struct {
	// RunDir is the node's folder of sockets: {run}.
	RunDir string
	// Version is croft's, for Info.
	Version string
	Level   zerolog.Level
	// Garbage is the amount that may gather before it is collected; above HardLimit the kernel
	// ends the process. In bytes; 0 for the defaults.
	Garbage   uint64
	HardLimit uint64
	Tuning    Tuning
	// SameGroup keeps the process in the control groups that it was started in.
	SameGroup bool
	// Zones makes the DNS server; nil for none.
	Zones func(log zerolog.Logger) (Zones, error)
}

// DefaultTuning was measured to be quick for little memory: iperf3
// through two carriers on two busy cores, Mbit/s and RssAnon of the receiver.
//
//	batch 1, window 64     170-210   11-15 MB
//	batch 4, window 128    250-260   18-19 MB
//	batch 8, window 256    430-500   26-28 MB
//	batch 16, window 256   510-730   31-33 MB
//	batch 32, window 512   520-800   46-53 MB
//	batch 128, no window   550-790   42-58 MB
//
// That was with a limit of the heap of 64 MiB, which is paced since (ADR 32). Without the slots, the window
// and the limit it was 334-357 MB for both devices in one process. BenchmarkTunnel measures it again.
func DefaultTuning() Tuning { return Tuning{Batch: 16, Window: 256} }

func (c ServeConfig) normal() ServeConfig {
	if c.Garbage == 0 {
		c.Garbage = DefaultGarbage
	}
	if c.HardLimit == 0 {
		c.HardLimit = DefaultHardLimit
	}
	if c.Tuning.Batch <= 0 || c.Tuning.Window <= 0 {
		c.Tuning = DefaultTuning()
	}
	return c
}

const (
	// sweepEvery is how long a namespace without a file may be kept alive.
	sweepEvery = 10 * time.Second
	// worthGiving is how much free memory, in bytes, is given back to the system.
	worthGiving = 8 << 20
)

// Serve is the carrier: it returns when ctx is done or a client says stop.
// Links stay. It owns the process: it moves it to control groups of its own
// and limits its memory. node.Busy when there is a carrier already.
func Serve(ctx context.Context, c ServeConfig) error {
	c = c.normal()
	return carrier.Serve(ctx, carrier.ServeConfig{
		Kind: kind(), RunDir: c.RunDir, Version: c.Version, Level: c.Level, HardLimit: c.HardLimit, SameGroup: c.SameGroup, WorthGiving: worthGiving,
	}, c.open)
}

// open makes an empty carrier, which s serves.
func (c ServeConfig) open(_ context.Context, s *carrier.Server, log zerolog.Logger) (end func(), err error) {
	devices := newDevices(c.Tuning, log)
	zones, err := makeZones(c, log)
	if err != nil {
		devices.close()
		return nil, err
	}
	handleDevices(s, devices)
	handleZones(s, zones)
	s.Describe(func(i carrier.Info) any {
		return Info{Info: i, Servers: true, Devices: devices.count(), Zones: len(zones.List(""))}
	})
	s.Background("sweep", func(ctx context.Context) { devices.sweep(ctx, sweepEvery) })
	s.Background("collector", func(ctx context.Context) { pace(ctx, c.Garbage) })
	log.Info().Str("version", c.Version).Int("batch", c.Tuning.Batch).Int("window", c.Tuning.Window).Msg("carrier begins")
	return func() {
		_ = zones.Close()
		devices.close()
	}, nil
}

func handleDevices(s *carrier.Server, d *devices) {
	carrier.Handle(s, opSetDevice, func(_ context.Context, r deviceRequest) (carrier.Nothing, error) {
		if r.Device == nil {
			return carrier.Nothing{}, missing(opSetDevice, "device")
		}
		if err := checkID(opSetDevice, r.ID); err != nil {
			return carrier.Nothing{}, err
		}
		return carrier.Nothing{}, d.set(r.ID, *r.Device)
	})
	carrier.Handle(s, opRemoveDevice, func(_ context.Context, r idRequest) (carrier.Nothing, error) {
		if err := checkID(opRemoveDevice, r.ID); err != nil {
			return carrier.Nothing{}, err
		}
		return carrier.Nothing{}, d.remove(r.ID)
	})
	carrier.Handle(s, opDevices, func(_ context.Context, r idRequest) (devicesAnswer, error) {
		if r.ID != "" {
			if err := checkID(opDevices, r.ID); err != nil {
				return devicesAnswer{}, err
			}
		}
		return devicesAnswer{d.list(r.ID)}, nil
	})
}

func handleZones(s *carrier.Server, z Zones) {
	carrier.Handle(s, opSetZone, func(ctx context.Context, r zoneRequest) (carrier.Nothing, error) {
		if r.Zone == nil {
			return carrier.Nothing{}, missing(opSetZone, "zone")
		}
		return carrier.Nothing{}, z.Set(ctx, *r.Zone)
	})
	carrier.Handle(s, opRemoveZone, func(ctx context.Context, r idRequest) (carrier.Nothing, error) {
		if err := checkID(opRemoveZone, r.ID); err != nil {
			return carrier.Nothing{}, err
		}
		return carrier.Nothing{}, z.Remove(ctx, r.ID)
	})
	carrier.Handle(s, opZones, func(_ context.Context, r idRequest) (zonesAnswer, error) {
		if r.ID != "" {
			if err := checkID(opZones, r.ID); err != nil {
				return zonesAnswer{}, err
			}
		}
		return zonesAnswer{z.List(r.ID)}, nil
	})
}

func makeZones(c ServeConfig, log zerolog.Logger) (Zones, error) {
	if c.Zones == nil {
		return noZones{}, nil
	}
	return c.Zones(log)
}

// noZones is a carrier without DNS.
type noZones struct{}

func (noZones) Set(context.Context, Zone) error {
	return node.Errorf(node.Refused, "cannot serve names: this carrier has no DNS")
}
func (noZones) Remove(_ context.Context, id string) error {
	return node.Errorf(node.NotExist, "cannot remove zone %s: there is none", id)
}
func (noZones) List(string) []ZoneStatus { return nil }
func (noZones) Close() error             { return nil }
