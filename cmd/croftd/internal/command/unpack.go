package command

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/modules/container/image/unpack"
)

// unpackCommand unpacks one layer of an image. Only the agent starts it, and passes it all that it
// needs.
func unpackCommand() *cli.Command {
	return &cli.Command{
		Name: "unpack", Hidden: true, HideHelp: true,
		Action: func(*cli.Context) error {
			if status := unpack.Serve(); status != ExitOK {
				return exitError{errHelper, status}
			}
			return nil
		},
	}
}

// errHelper means that the process that asked is gone.
var errHelper = errors.New("cannot answer: the caller is gone")
