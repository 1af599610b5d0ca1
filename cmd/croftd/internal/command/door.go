package command

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/front"
)

// doorCommand runs the door's process, which serves users. Only the agent starts it, and passes it all
// that it needs.
func doorCommand() *cli.Command {
	return &cli.Command{
		Name: "door", Hidden: true, HideHelp: true,
		Action: func(*cli.Context) error {
			if status := front.Serve(); status != ExitOK {
				return exitError{errDoor, status}
			}
			return nil
		},
	}
}

// errDoor means that there is no agent, or no longer.
var errDoor = errors.New("cannot serve the door: there is no agent")
