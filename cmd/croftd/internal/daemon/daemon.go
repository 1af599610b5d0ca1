// Package daemon assembles a node and runs it: the whole in one process, or one part of it as a process
// on a shared bus. It only wires; the packages that it wires decide and act.
package daemon

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/watchdog"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/memory"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Config configures a process of the node.
type Config struct {
	config.Config
	// Loaded are the settings at the start, with their sources; Reload reads them anew.
	Loaded *config.Loaded
	Reload func() (*config.Loaded, []error)
	// Hangups has a signal, SIGHUP, when the settings are to be read anew; nil never has.
	Hangups <-chan os.Signal
	// Process is the part of the node in this process: module.Whole, on a bus inside the process;
	// module.Provision or a module's name, on the bus at Config.Bus.
	Process string
	// Modules are the node's modules.
	Modules []module.Descriptor
	Version node.Version
	// Log writes into Tap, which feeds streams of log lines; without a Tap, no stream gets the lines of
	// this process.
	Log zerolog.Logger
	Tap *debug.Tap
}

// runs reports whether this process runs that part of the node.
func (c Config) runs(part string) bool { return c.Process == module.Whole || c.Process == part }

// ceiling are the limits of this process.
func (c Config) ceiling() ceiling.Process {
	for _, p := range module.Processes(c.Modules) {
		if p.Name == c.Process {
			return p
		}
	}
	return ceiling.Process{Name: c.Process}
}

// daemon holds the state that the parts of one process share.
type daemon struct {
	Config
	bus     bus.Bus
	options bus.Options
	// seat is this process's control group.
	seat *cgroup.Seat
	// dialer is the only way to addresses that tenants name.
	dialer *dial.Dialer
	// phases are those of the modules of this process.
	phases   *phases
	settings *settings
	liveness *liveness
}

// Run runs the process c.Process until ctx is done, then stops its parts in order: inputs from outside
// and the reservation in progress, feedback, modules, the bus. A stop never touches workloads.
func Run(ctx context.Context, c Config) error {
	c.Log.Info().Str("version", c.Version.Version).Str("state_dir", c.StateDir).Msg("starting")
	for dir, mode := range map[string]os.FileMode{c.StateDir: 0o700, c.RunDir: 0o755} {
		if err := module.MakeFolder(dir, mode); err != nil {
			return err
		}
	}
	d := &daemon{Config: c, settings: newSettings(c), liveness: &liveness{}, options: bus.Options{Log: c.Log}, seat: c.ceiling().Settle(c.RunDir, c.Log)}
	defer d.seat.Leave()
	parts := supervise.New(c.Log)
	err := d.start(ctx, parts)
	if err == nil {
		parts.Start(supervise.Part{Name: "memory", Again: true, Run: func(ctx context.Context) error {
			memory.KeepLow(ctx)
			return nil
		}})
		d.tell(systemd.SdNotifyReady)
		c.Log.Info().Msg("started")
		told := context.AfterFunc(ctx, func() {
			c.Log.Info().Msg("stopping")
			d.tell(systemd.SdNotifyStopping)
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

// start starts the parts of this process. The first to start is the last to stop.
func (d *daemon) start(ctx context.Context, parts *supervise.Group) (err error) {
	d.liveness.watch(parts, d.tell, d.Log)
	if d.dialer, err = d.host().NewDialer(); err != nil {
		return err
	}
	if err := d.openBus(ctx, parts); err != nil {
		return err
	}
	d.startForward(parts)
	d.startLimits(parts)
	if err := d.startModules(parts); err != nil {
		return err
	}
	parts.Start(d.settings.part(d.Hangups))
	if d.runs(module.Provision) {
		return d.startProvision(ctx, parts)
	}
	return nil
}

// host holds the dependencies that this process gives its modules.
func (d *daemon) host() module.Host {
	return module.Host{Config: d.Config.Config, Version: d.Version, Bus: d.bus, Dialer: d.dialer, Tap: d.Tap, Log: d.Log}
}

// openBus makes the bus of a one-process node, which others may use through a broker, or connects to
// the bus that the processes share.
func (d *daemon) openBus(ctx context.Context, parts *supervise.Group) error {
	if d.Process != module.Whole {
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
	listen := func(context.Context) (*broker.Broker, error) { return broker.Listen(own, d.BusListen, d.options.Log) }
	door, err := listen(ctx)
	if err != nil {
		return err
	}
	parts.Start(supervise.Part{Name: "broker", Again: true, Run: reopened(door, listen)})
	return nil
}

// server serves until its context is done. It serves once.
type server interface {
	Run(ctx context.Context) error
}

// reopened runs a server, and at each later call one that open opens anew: for a part with Again.
func reopened[S server](first S, open func(ctx context.Context) (S, error)) func(ctx context.Context) error {
	next := func(context.Context) (S, error) { return first, nil }
	return func(ctx context.Context) error {
		s, err := next(ctx)
		next = open
		if err != nil {
			return err
		}
		return s.Run(ctx)
	}
}

// tell notifies the service manager, when there is one; a failure is only logged. Child processes keep
// NOTIFY_SOCKET.
func (d *daemon) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		d.Log.Warn().Err(err).Msg("cannot notify the service manager")
	}
}

// liveness is whether this process goes on.
type liveness struct {
	// shown is the process's view of its engine; none in a process without one.
	shown atomic.Pointer[view]
}

// check returns an error while the engine of this process is stuck.
func (l *liveness) check(ctx context.Context) error {
	if v := l.shown.Load(); v != nil {
		return v.alive(ctx)
	}
	return nil
}

// watch tells the service manager that this process goes on, where that wants to hear it.
func (l *liveness) watch(parts *supervise.Group, tell func(state string), log zerolog.Logger) {
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return
	}
	w := watchdog.Watchdog{
		Every: every, Check: l.check, Tell: func() { tell(systemd.SdNotifyWatchdog) },
		Fault: func(err error) { log.Error().Err(err).Msg("the service manager isn't told that this process goes on") },
	}
	parts.Start(supervise.Part{Name: "watchdog", Again: true, Run: w.Run})
}

// patience is the pause between attempts to reach a module that is starting.
const patience = 200 * time.Millisecond

// waitFor repeats call until it succeeds or ctx is done. It logs the first error.
func (d *daemon) waitFor(ctx context.Context, what string, call func(ctx context.Context) error) error {
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
