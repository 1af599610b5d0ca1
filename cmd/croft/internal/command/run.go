package command

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

// Run runs the command line and returns the process's exit code.
func Run(ctx context.Context, env Env, args []string) int {
	app := newApp(env)
	args, err := arranged(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	s := shell{env: env, app: app}
	var (
		changes changesError
		shown   *shownError
		ended   *commandError
	)
	switch {
	case err == nil || errors.As(err, &changes) || errors.As(err, &shown) || errors.As(err, &ended):
	case ctx.Err() != nil:
		s.say("croft: interrupted; what was begun is in the state, and apply goes on from there")
	default:
		s.say("croft: %s", s.plainText(err))
	}
	return exitCode(ctx, err)
}

func newApp(env Env) *cli.App {
	app := &cli.App{
		Name: "croft", Usage: "sign reservations, push them to an explorer, and check what the nodes answer",
		Description: "Answers go to the standard output, progress and errors to the standard error.\n" +
			"Flags may stand anywhere. `croft help COMMAND` has examples; `croft help exit-codes` says what the exit codes mean.",
		Writer: env.Stdout, ErrWriter: env.Stderr, Reader: env.Stdin,
		HideVersion: true, EnableBashCompletion: true,
		Flags:          globalFlags(),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return &usageError{err} },
	}
	app.Before = func(c *cli.Context) error {
		app.Metadata = map[string]any{flagDebug: c.Bool(flagDebug)}
		return nil
	}
	s := &shell{env: env, app: app}
	app.Commands = []*cli.Command{
		s.idCommand(), s.farmCommand(), s.nodeCommand(),
		s.planCommand(), s.applyCommand(), s.importCommand(), s.statusCommand(), s.renewCommand(), s.deleteCommand(), s.networkCommand(),
		s.logsCommand(), s.execCommand(), s.statsCommand(),
		s.reservationCommand(), s.countersCommand(),
		s.completionCommand(), s.versionCommand(), exitCodes(),
	}
	app.Action = noSuchCommand
	checked(app.Commands)
	return app
}

// checked makes every command answer a wrong line in the same way.
func checked(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return &usageError{err} }
		if c.Action == nil {
			c.Action = noSuchCommand
		}
		checked(c.Subcommands)
	}
}

// noSuchCommand is what a group does when none of its commands was named.
func noSuchCommand(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("there is no command %q; `croft help` lists them", c.Args().First())
	}
	return cli.ShowSubcommandHelp(c)
}

// arguments checks how many arguments there are.
func arguments(c *cli.Context, least, most int, what string) ([]string, error) {
	if n := c.NArg(); n < least || n > most {
		return nil, usagef("%s takes %s; %d arguments are given", c.Command.FullName(), what, n)
	}
	return c.Args().Slice(), nil
}

// shell is what the commands share.
type shell struct {
	env Env
	app *cli.App
	// memory is held while what is remembered of nodes is written.
	memory sync.Mutex
	// explorerAway is set once the explorer was found to be away: it isn't waited for again.
	explorerAway *awayError
}

// say writes a line to the standard error. What others have said may be in it,
// so nothing of it may control the terminal; whether it arrives stops nothing.
func (s *shell) say(format string, args ...any) {
	_, _ = fmt.Fprintln(s.env.Stderr, render.Line(fmt.Sprintf(format, args...)))
}
