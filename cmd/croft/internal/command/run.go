package command

import (
	"context"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/clusters"
	"github.com/croft-edge/croft/cmd/croft/internal/command/containers"
	"github.com/croft-edge/croft/cmd/croft/internal/command/fleet"
	"github.com/croft-edge/croft/cmd/croft/internal/command/identity"
	"github.com/croft-edge/croft/cmd/croft/internal/command/inspect"
	"github.com/croft-edge/croft/cmd/croft/internal/command/networks"
	"github.com/croft-edge/croft/cmd/croft/internal/command/projects"
	"github.com/croft-edge/croft/cmd/croft/internal/command/reservations"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
)

// Run runs the command line and returns the process's exit code.
func Run(ctx context.Context, env shell.Env, args []string) int {
	s := &shell.Shell{Env: env}
	app := newApp(s)
	args, err := arranged(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	var (
		changes projects.ChangesError
		ended   *containers.ExitError
	)
	switch {
	case err == nil || errors.As(err, &changes) || errors.As(err, &ended):
	case ctx.Err() != nil:
		s.Say("croft: interrupted; the state file has the unfinished work, and apply continues it")
	default:
		s.Say("croft: %s", s.PlainText(err))
	}
	return exitCode(ctx, err)
}

// newApp registers every command.
func newApp(s *shell.Shell) *cli.App {
	usage := func(_ *cli.Context, err error, _ bool) error { return shell.Usage(err) }
	app := &cli.App{
		Name: "croft", Usage: "sign reservations, push them to an explorer, and check what the nodes answer",
		Description: "Answers go to the standard output, progress and errors to the standard error.\n" +
			"Flags may stand anywhere. `croft help COMMAND` has examples; `croft help exit-codes` lists the exit codes.",
		Writer: s.Env.Stdout, ErrWriter: s.Env.Stderr, Reader: s.Env.Stdin,
		HideVersion: true, EnableBashCompletion: true,
		Flags:          shell.GlobalFlags(),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usage,
	}
	app.Before = func(c *cli.Context) error {
		s.ReadFlags(c)
		return nil
	}
	app.Commands = []*cli.Command{
		identity.Command(s), fleet.Farms(s), fleet.Nodes(s),
		projects.Plan(s), projects.Apply(s), projects.Import(s), projects.Status(s), projects.Renew(s), projects.Delete(s), networks.Command(s),
		containers.Logs(s), containers.Exec(s), containers.Stats(s), containers.Events(s), clusters.Kubeconfig(s),
		reservations.Command(s), inspect.Get(s), inspect.Dump(s), inspect.Graph(s), fleet.Counters(s),
		completionCommand(app), versionCommand(s), exitCodes(),
	}
	app.Action = noSuchCommand
	checked(app.Commands, usage)
	return app
}

// checked makes every command answer a wrong line in the same way.
func checked(commands []*cli.Command, usage cli.OnUsageErrorFunc) {
	for _, c := range commands {
		c.OnUsageError = usage
		if c.Action == nil {
			c.Action = noSuchCommand
		}
		checked(c.Subcommands, usage)
	}
}

// noSuchCommand is a group's action when none of its commands was named.
func noSuchCommand(c *cli.Context) error {
	if c.Args().Present() {
		return shell.Usagef("there is no command %q; `croft help` lists them", c.Args().First())
	}
	return cli.ShowSubcommandHelp(c)
}
