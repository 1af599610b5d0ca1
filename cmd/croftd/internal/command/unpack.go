package command

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/modules/container/image/unpack"
)

// unpackCommand unpacks one layer of an image, for the agent that starts it with all
// that it needs. Nobody else has a use for it.
func unpackCommand() *cli.Command {
	return &cli.Command{
		Name: "unpack", Hidden: true, HideHelp: true,
		Action: func(*cli.Context) error {
			if status := unpack.Serve(); status != ExitOK {
				return exitError{errUnpack, status}
			}
			return nil
		},
	}
}

// errUnpack is when what asked for a layer isn't there any more.
var errUnpack = errors.New("cannot answer: who asked is gone")
