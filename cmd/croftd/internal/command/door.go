package command

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/front"
)

// doorCommand speaks to users at the node's door, for the agent that starts it with all
// that it needs. Nobody else has a use for it.
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

// errDoor is when there is no agent, or not any more.
var errDoor = errors.New("cannot serve the door: there is no agent")
