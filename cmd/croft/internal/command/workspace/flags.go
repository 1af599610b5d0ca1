package workspace

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// defaultFile is the project file where none is named.
const defaultFile = "croft.yaml"

// FileFlag names the project file.
func FileFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the project `FILE` (default: croft.yaml here)", TakesFile: true}
}

// Path is the path of the project file.
func Path(c *cli.Context) string {
	if path := c.String("file"); path != "" {
		return path
	}
	return defaultFile
}

// NodeFlags are those of every command that speaks to a node, and more. The project's
// file has no short name here: -f is for following.
func NodeFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "file", Usage: "the project `FILE` (default: croft.yaml here)", TakesFile: true},
		&cli.StringFlag{Name: "node-address", Usage: "connect to the node at this `HOST:PORT` only; it still has to prove its key"},
	)
}

// CompleteNames prints the names of the project in this folder, and the command's flags.
func CompleteNames(c *cli.Context) {
	if f, err := project.Load(defaultFile); err == nil {
		for _, n := range f.Networks {
			_, _ = fmt.Fprintln(c.App.Writer, n.Name)
		}
		for _, w := range f.Workloads {
			_, _ = fmt.Fprintln(c.App.Writer, w.Name)
		}
	}
	cli.DefaultCompleteWithFlags(c.Command)(c)
}

// CompleteNetworks prints the names of the networks in this folder's project, then more's
// list for the network already named; more may be nil.
func CompleteNetworks(more func(*project.Network) []string) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		f, err := project.Load(defaultFile)
		if err == nil && c.NArg() == 0 {
			for _, n := range f.Networks {
				_, _ = fmt.Fprintln(c.App.Writer, n.Name)
			}
		}
		if err == nil && c.NArg() == 1 && more != nil {
			if n := f.FindNetwork(c.Args().First()); n != nil {
				for _, word := range more(n) {
					_, _ = fmt.Fprintln(c.App.Writer, word)
				}
			}
		}
		cli.DefaultCompleteWithFlags(c.Command)(c)
	}
}
