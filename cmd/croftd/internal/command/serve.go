package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/node"
)

// croftd is the program: its version and its modules.
type croftd struct {
	version node.Version
	modules []module.Descriptor
	// asked is set to the process of the node that the command line asks for, if any.
	asked *service
}

// service is a process of the node, which runs until ctx is done.
type service func(ctx context.Context) error

// serveCommands run until they are stopped: the whole node, the modules without commands for a stopped
// node, and the engine.
func (p croftd) serveCommands() []*cli.Command {
	all := []*cli.Command{{
		Name: module.Whole, Usage: "run the whole node in one process, on a bus of its own",
		Flags: p.settingFlags(), Action: p.serve(module.Whole),
	}}
	for _, m := range p.modules {
		if len(m.Commands) == 0 {
			all = append(all, p.moduleCommand(m))
		}
	}
	return append(all, &cli.Command{
		Name: module.Provision, Usage: "run the engine on --bus: reservations, health, control",
		Flags: p.settingFlags(), Action: p.serve(module.Provision),
	})
}

// stoppedCommands are the modules that have commands for a stopped node.
func (p croftd) stoppedCommands() []*cli.Command {
	var all []*cli.Command
	for _, m := range p.modules {
		if len(m.Commands) > 0 {
			all = append(all, p.moduleCommand(m))
		}
	}
	return all
}

// moduleCommand runs a module; below it are its commands for a stopped node.
func (p croftd) moduleCommand(m module.Descriptor) *cli.Command {
	out := &cli.Command{
		Name: m.Name, Aliases: m.Aliases, Usage: "run the " + m.Name + " module on --bus: " + m.Summary,
		Flags: p.settingFlags(), Action: p.serve(m.Name),
	}
	for _, c := range m.Commands {
		out.Subcommands = append(out.Subcommands, &cli.Command{
			Name: c.Name, Usage: c.Usage, Flags: append(p.settingFlags(), c.Flags...), Action: p.stopped(c.Run),
		})
	}
	return out
}

// stopped runs a module's command for a stopped node.
func (p croftd) stopped(run func(ctx context.Context, o module.Order) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		loaded, err := p.load(c)
		if err != nil {
			return err
		}
		if err := needRoot("unmounting pools, freeing loop devices, removing networks and ending containers"); err != nil {
			return err
		}
		err = run(c.Context, module.Order{Config: loaded.Config, CLI: c, Processes: module.Processes(p.modules)})
		var wrong module.UsageError
		if errors.As(err, &wrong) {
			return usage(wrong)
		}
		return err
	}
}

// serve asks for that process of the node.
func (p croftd) serve(process string) cli.ActionFunc {
	return func(c *cli.Context) error {
		from := p.from(c)
		*p.asked = func(ctx context.Context) error { return p.run(ctx, process, from) }
		return nil
	}
}

// run runs that process of the node until it is stopped.
func (p croftd) run(ctx context.Context, process string, from config.From) error {
	// From here on: what changes after the settings were read is read once the node runs.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	loaded, err := config.Load(from)
	if err != nil {
		return usage(err)
	}
	if err := p.checkBus(process, loaded.Config); err != nil {
		return usage(err)
	}
	if err := needRoot("a node makes loop devices, btrfs pools and mounts, and keeps its key where only root can read it"); err != nil {
		return err
	}
	tap := debug.NewTap(output(loaded.Config))
	log := logger(loaded.Config, tap).With().Str("part", process).Logger()
	if loaded.File != "" {
		log.Info().Str("file", loaded.File).Msg("settings read from a file")
	}
	for _, name := range loaded.Ignored {
		log.Warn().Str("name", name).Msg("environment variable ignored: it isn't a setting")
	}
	return daemon.Run(ctx, daemon.Config{Config: loaded.Config, Loaded: loaded, Reload: func() (*config.Loaded, []error) { return config.Check(from) }, Hangups: hangups, Process: process, Modules: p.modules, Version: p.version, Log: log, Tap: tap})
}

func (p croftd) checkBus(process string, c config.Config) error {
	if process == module.Whole && c.Bus != "" {
		var names []string
		for _, m := range module.SupportLast(p.modules) {
			names = append(names, m.Name)
		}
		return errors.Errorf("cannot use bus with croftd run: the whole node is one process with a bus of its own; run croftd %s and provision instead", strings.Join(names, ", "))
	}
	if process != module.Whole && c.Bus == "" {
		return errors.Errorf("cannot run %s without bus: it must be the URL of the redis server that the other modules use", process)
	}
	return nil
}

// output is the destination of log lines: standard error, in the configured format.
func output(c config.Config) io.Writer {
	if c.LogFormat == "text" {
		return zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.RFC3339, NoColor: true}
	}
	return os.Stderr
}

func logger(c config.Config, out io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}
