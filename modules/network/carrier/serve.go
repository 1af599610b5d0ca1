package carrier

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// ServeConfig is what the process itself is told.
type ServeConfig struct {
	// RunDir is the node's folder of sockets: {run}.
	RunDir string
	// Version is croft's, for Info.
	Version string
	Level   zerolog.Level
	// Garbage is what may gather before it is collected, HardLimit is where the kernel ends the
	// process. In bytes; 0 for the defaults.
	Garbage   uint64
	HardLimit uint64
	Tuning    Tuning
	// SameGroup keeps the process in the control groups that it was started in.
	SameGroup bool
	// Zones makes the DNS server; nil for none.
	Zones func(log zerolog.Logger) (Zones, error)
}

// DefaultTuning is what was measured to be quick for little memory: iperf3
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
	// giveBackEvery is how long a burst's memory may stay.
	giveBackEvery = 15 * time.Second
	// worthGiving is how much of it, in bytes, is worth the work.
	worthGiving = 8 << 20
)

// Serve is the carrier: it returns when ctx is done or a client says stop.
// Links stay. It owns the process: it moves it to control groups of its own
// and limits its memory. node.Busy when there is a carrier already.
func Serve(ctx context.Context, c ServeConfig) error {
	c = c.normal()
	dir := folderOf(c.RunDir)
	if err := dir.Make(); err != nil {
		return err
	}
	lock, err := carrier.TryLock(dir.Lock())
	if err != nil {
		return err
	}
	if lock == nil {
		return node.Errorf(node.Busy, "cannot carry: another carrier runs for %s", c.RunDir)
	}
	defer lock.Close()
	file, err := carrier.OpenLog(dir.Log(), carrier.MaxLog)
	if err != nil {
		return err
	}
	defer file.Close()
	log := zerolog.New(file).Level(c.Level).With().Timestamp().Int("pid", os.Getpid()).Logger()
	err = serve(ctx, c, dir, log)
	log.Info().Err(err).Msg("carrier ends")
	return err
}

func serve(ctx context.Context, c ServeConfig, dir carrier.Folder, log zerolog.Logger) error {
	if !c.SameGroup {
		carrier.Confine(dir.Group(), carrier.Ceiling(c.HardLimit), log)
	}
	devices := newDevices(c.Tuning, log)
	defer devices.close()
	zones, err := makeZones(c, log)
	if err != nil {
		return err
	}
	defer zones.Close()
	pid := []byte(fmt.Sprintln(os.Getpid()))
	if err := os.WriteFile(dir.PID(), pid, 0o600); err != nil {
		return errors.Wrap(err, "cannot write the carrier's PID file")
	}
	defer os.Remove(dir.PID())
	listener, err := carrier.Listen(ctx, dir.Socket())
	if err != nil {
		return err
	}
	defer os.Remove(dir.Socket())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &server{version: c.Version, started: time.Now(), devices: devices, zones: zones, garbage: c.Garbage, stop: stop, log: log}
	log.Info().Str("version", c.Version).Int("batch", c.Tuning.Batch).Int("window", c.Tuning.Window).Msg("carrier begins")
	return s.run(ctx, &carrier.Control{Listener: listener, MaxRequest: maxRequest, Answer: s.answer, Log: log}, log)
}

// run runs the parts until ctx is done.
func (s *server) run(ctx context.Context, c *carrier.Control, log zerolog.Logger) error {
	group := supervise.New(log)
	group.Start(supervise.Part{Name: "sweep", Run: func(ctx context.Context) error { s.devices.sweep(ctx, sweepEvery); return nil }})
	group.Start(supervise.Part{Name: "memory", Run: func(ctx context.Context) error { carrier.GiveBack(ctx, giveBackEvery, worthGiving); return nil }})
	group.Start(supervise.Part{Name: "collector", Run: func(ctx context.Context) error { pace(ctx, s.garbage); return nil }})
	group.Start(supervise.Part{Name: "control", Run: c.Run})
	return group.Wait(ctx)
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
func (noZones) List() []ZoneStatus { return nil }
func (noZones) Close() error       { return nil }
