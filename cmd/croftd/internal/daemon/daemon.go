// Package daemon puts a node together of its parts and runs it: the whole in
// one process, or one part of it as a process on a bus that others share. It
// wires; whatever decides or acts is in the packages that it wires.
package daemon

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Shape says what of the node a process is.
type Shape string

// The shapes.
const (
	// Whole is the whole node, on a bus inside the process.
	Whole Shape = "run"
	// The others are one part each, on the bus at Config.Bus.
	Identity  Shape = "identity"
	Storage   Shape = "storage"
	Monitor   Shape = "monitor"
	Debug     Shape = "debug"
	Network   Shape = "network"
	Container Shape = "container"
	ZDB       Shape = "zdb"
	Provision Shape = "provision"
)

// has reports whether a process of this shape runs that part.
func (s Shape) has(part Shape) bool { return s == Whole || s == part }

// Config is what a process is made of.
type Config struct {
	config.Config
	Shape   Shape
	Version node.Version
	// Log writes into Tap, which streams of log lines listen to; without a Tap
	// the lines of this process are in none.
	Log zerolog.Logger
	Tap *debug.Tap

	// seat is where this process's ceilings are, nil before Run.
	seat *cgroup.Seat
}

// daemon is what the parts of one process share.
type daemon struct {
	Config
	bus     bus.Bus
	options bus.Options
	// dialer is the only way to addresses that tenants name.
	dialer *dial.Dialer
}

// Run runs a process of that shape until ctx is done, then stops its parts in
// order: what comes in from outside and the reservation in hand, feedback,
// modules, the bus. Workloads are never touched by a stop.
func Run(ctx context.Context, c Config) error {
	c.Log.Info().Str("version", c.Version.Version).Str("state_dir", c.StateDir).Msg("starting")
	for dir, mode := range map[string]os.FileMode{c.StateDir: 0o700, c.RunDir: 0o755} {
		if err := makeFolder(dir, mode); err != nil {
			return err
		}
	}
	c.seat = c.confine()
	defer c.seat.Leave()
	d := &daemon{Config: c, options: bus.Options{Log: c.Log}}
	parts := supervise.New(c.Log)
	err := d.start(ctx, parts)
	if err == nil {
		d.tell("READY=1")
		c.Log.Info().Msg("started")
		told := context.AfterFunc(ctx, func() {
			c.Log.Info().Msg("stopping")
			d.tell("STOPPING=1")
		})
		defer told()
		err = parts.Wait(ctx)
	} else {
		_ = parts.Stop()
	}
	if d.bus != nil {
		_ = d.bus.Close()
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	c.Log.Info().Err(err).Msg("stopped")
	return err
}

// start is the wiring: same code, two shapes. What is started first is
// stopped last.
func (d *daemon) start(ctx context.Context, parts *supervise.Group) (err error) {
	if d.dialer, err = d.newDialer(); err != nil {
		return err
	}
	if err := d.openBus(ctx, parts); err != nil {
		return err
	}
	if err := d.startLogLines(parts); err != nil {
		return err
	}
	d.startLimits(parts)
	if d.Shape.has(Identity) {
		if err := d.startIdentity(parts); err != nil {
			return err
		}
	}
	if d.Shape.has(Monitor) {
		if err := d.startMonitor(parts); err != nil {
			return err
		}
	}
	if d.Shape.has(Storage) {
		if err := d.startStorage(ctx, parts); err != nil {
			return err
		}
	}
	if d.Shape.has(Network) {
		if err := d.startNetwork(parts); err != nil {
			return err
		}
	}
	if d.Shape.has(Container) {
		if err := d.startContainer(parts); err != nil {
			return err
		}
	}
	if d.Shape.has(ZDB) {
		if err := d.startZDB(ctx, parts); err != nil {
			return err
		}
	}
	if d.Shape.has(Provision) {
		return d.startProvision(ctx, parts)
	}
	return nil
}

// openBus makes the bus of the one process, which others may use through a
// broker; or connects to the one that the processes share.
func (d *daemon) openBus(ctx context.Context, parts *supervise.Group) error {
	if d.Shape != Whole {
		shared, err := bus.Connect(ctx, d.Bus, d.options)
		if err != nil {
			return err
		}
		d.bus = shared
		return nil
	}
	own := bus.NewInProcess()
	d.bus = own
	if d.BusListen == "" {
		return nil
	}
	door, err := broker.Listen(own, d.BusListen, d.options.Log)
	if err != nil {
		return err
	}
	parts.Start(supervise.Part{Name: "broker", Run: door.Run})
	return nil
}

// tell tells the service manager; that it can't be told is no reason to stop.
func (d *daemon) tell(state string) {
	if err := notify(state); err != nil {
		d.Log.Warn().Err(err).Msg("cannot tell the service manager")
	}
}

// patience is how long to wait between attempts to reach a module that starts
// beside this process.
const patience = 200 * time.Millisecond

// await calls until it works or ctx is done. It says once why it waits.
func (d *daemon) await(ctx context.Context, what string, call func(ctx context.Context) error) error {
	said := false
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := call(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !said {
			d.Log.Warn().Err(err).Msg("waiting for " + what)
			said = true
		}
		timer := time.NewTimer(patience)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Wrapf(ctx.Err(), "cannot wait for %s", what)
		case <-timer.C:
		}
	}
}
