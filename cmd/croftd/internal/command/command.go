// Package command is croftd's command line: it parses arguments, checks the user's rights, and calls
// the packages that do the work.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/privatesocket"
)

// Exit statuses. They are documented in docs/operations.md.
const (
	ExitOK         = 0
	ExitFailed     = 1
	ExitUsage      = 2
	ExitNeedsRoot  = 3
	ExitNotRunning = 4
	ExitRefused    = 5
	// ExitSecondSignal is the exit status after a second stop signal.
	ExitSecondSignal = 130
)

// Main runs croftd with these modules, and returns its exit status.
func Main(v node.Version, modules []module.Descriptor, args []string, out, errs io.Writer) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go untilSignal(ctx, stop)
	run, err := croftd{version: v, modules: modules}.parse(ctx, args, out, errs)
	if err == nil && run != nil {
		err = run(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "croftd:", err)
	}
	return status(err)
}

// parse parses the command line, and does what it says, but for what runs until it is stopped: that is returned, nil if there is none. The
// tables of commands and flags, about a MiB, aren't kept while it runs.
func (p croftd) parse(ctx context.Context, args []string, out, errs io.Writer) (asked service, err error) {
	p.asked = &asked
	err = dispatch(ctx, p.app(out, errs), args)
	return asked, err
}

// untilSignal stops the process gracefully at the first signal, at once at the second.
func untilSignal(ctx context.Context, stop context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	select {
	case <-signals:
		stop()
	case <-ctx.Done():
		return
	}
	<-signals
	os.Exit(ExitSecondSignal)
}

// status is the exit status of an error.
func status(err error) int {
	var coded exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, privatesocket.ErrNotRunning):
		return ExitNotRunning
	case errors.Is(err, node.Refused):
		return ExitRefused
	}
	return ExitFailed
}

// exitError is an error with its exit status.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return exitError{err, ExitUsage}
}

func (p croftd) app(out, errs io.Writer) *cli.App {
	a := &cli.App{
		Name: "croftd", Usage: "the node: carries out signed reservations",
		Version: p.version.Version, HideVersion: true,
		Writer: out, ErrWriter: errs,
		Action: func(c *cli.Context) error {
			return invocation{app: c.App, command: c.Command, name: c.App.Name}.help(nil)
		},
	}
	a.Commands = slices.Concat(p.serveCommands(), p.operatorCommands(), p.stoppedCommands(), []*cli.Command{
		carrierCommand(p.version), unpackCommand(), flistCommand(), hookCommand(), doorCommand(), p.configCommand(), p.idCommand(), versionCommand(p.version),
	})
	return a
}

// flagConfig names the configuration file.
const flagConfig = "config"

// settingFlags are the flags for all settings.
func (p croftd) settingFlags() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: flagConfig, Usage: "configuration `FILE`", EnvVars: []string{config.EnvPrefix + "CONFIG"}, Value: config.DefaultFile}}
	for _, s := range config.Settings(module.Settings(p.modules)) {
		usage := s.Help + " [$" + s.Env() + "]"
		if s.Default != "" {
			usage += " (default: " + s.Default + ")"
		}
		if s.Kind == config.Switch {
			flags = append(flags, &cli.BoolFlag{Name: s.Name, Usage: usage, Category: s.Group})
			continue
		}
		if s.Kind == config.List {
			flags = append(flags, &cli.StringSliceFlag{Name: s.Name, Usage: usage, Category: s.Group})
			continue
		}
		flags = append(flags, &cli.StringFlag{Name: s.Name, Usage: usage, Category: s.Group})
	}
	return flags
}

// load reads the effective configuration for c.
func (p croftd) load(c *cli.Context) (*config.Loaded, error) {
	loaded, err := config.Load(p.from(c))
	return loaded, usage(err)
}

// from says where the settings for c come from.
func (p croftd) from(c *cli.Context) config.From {
	from := config.From{Modules: module.Settings(p.modules), File: c.String(flagConfig), Environ: os.Environ(), Flags: map[string]string{}}
	for _, s := range config.Settings(module.Settings(p.modules)) {
		if !c.IsSet(s.Name) {
			continue
		}
		from.Flags[s.Name] = flagText(c, s)
	}
	return from
}

func flagText(c *cli.Context, s config.Setting) string {
	switch s.Kind {
	case config.Switch:
		return fmt.Sprint(c.Bool(s.Name))
	case config.List:
		return joined(c.StringSlice(s.Name))
	}
	return c.String(s.Name)
}

// needRoot returns an error, with the reason in one line, unless root runs the process.
func needRoot(why string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return exitError{errors.Errorf("needs root: %s (run it with sudo)", why), ExitNeedsRoot}
}
