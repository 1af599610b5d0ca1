package command

import (
	"context"
	"fmt"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/containers"
	"github.com/croft-edge/croft/cmd/croft/internal/command/projects"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
)

// The exit codes. docs/cli.md and `croft help exit-codes` say the same.
const (
	exitOK          = 0
	exitError       = 1
	exitChanges     = 2
	exitFailed      = 3
	exitTimeout     = 4
	exitUsage       = 64
	exitInterrupted = 130
)

// exitTable is the text of `croft help exit-codes`.
const exitTable = `0    done; for plan: nothing to change
1    an error, or an answer that can't be believed (a forged, foreign or older
     result, a bad signature)
2    plan: there are changes
3    with --wait: a node answered with an error, a workload ended, or a container
     doesn't stay up
4    with --wait: the --timeout has passed
64   the command line is wrong: unknown command or flag, missing argument
130  interrupted
exec ends with the exit code of the command that it ran.`

// exitCode is the code that err ends the process with.
func exitCode(ctx context.Context, err error) int {
	var (
		usage   *shell.UsageError
		changes projects.ChangesError
		failed  *deploy.FailedError
		timeout *deploy.TimeoutError
		ended   *containers.ExitError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ended):
		return int(ended.Code)
	case errors.As(err, &changes):
		return exitChanges
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &timeout):
		return exitTimeout
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitError
}

// exitCodes is the topic `croft help exit-codes`.
func exitCodes() *cli.Command {
	return &cli.Command{
		Name: "exit-codes", Category: "help", Usage: "list the exit codes", Description: exitTable,
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintln(c.App.Writer, exitTable)
			return err
		},
	}
}
