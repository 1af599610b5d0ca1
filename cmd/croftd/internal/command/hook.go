package command

import (
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
)

// hookCommand is a hook's process before its program. Only the agent starts it; all arguments are the program's.
func hookCommand() *cli.Command {
	return &cli.Command{
		Name: "hook", Hidden: true, HideHelp: true, SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			return exitError{hooks.Exec(c.Args().Slice()), exitCannotExecute}
		},
	}
}

// exitCannotExecute is the exit status of a hook whose program can't be executed, as of shells.
const exitCannotExecute = 126
