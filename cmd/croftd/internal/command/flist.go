package command

import (
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/pkg/flist/database"
)

// flistCommand reads the database of a flist. Only the agent starts it, and passes it the open file.
func flistCommand() *cli.Command {
	return &cli.Command{
		Name: "read-flist", Hidden: true, HideHelp: true,
		Action: func(*cli.Context) error {
			if status := database.Serve(); status != ExitOK {
				return exitError{errHelper, status}
			}
			return nil
		},
	}
}
