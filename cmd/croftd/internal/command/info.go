package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/pkg/node"
)

const flagOutput = "output"

func joined(items []string) string { return strings.Join(items, ",") }

func outputFlag(value, usage string) cli.Flag {
	return &cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Value: value, Usage: usage}
}

func (p croftd) configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "print the settings in force and their sources; passwords are masked",
		Flags:       append(p.settingFlags(), outputFlag("yaml", "yaml or json")),
		Subcommands: []*cli.Command{p.checkCommand()},
		Action: func(c *cli.Context) error {
			loaded, err := p.load(c)
			if err != nil {
				return err
			}
			for _, name := range loaded.Ignored {
				_, _ = fmt.Fprintf(c.App.ErrWriter, "croftd: environment variable ignored: %s isn't a setting\n", name)
			}
			return usage(loaded.Print(c.App.Writer, c.String(flagOutput)))
		},
	}
}

func (p croftd) idCommand() *cli.Command {
	return &cli.Command{
		Name: "id", Usage: "print the node's ID; a missing key is created",
		Flags: p.settingFlags(),
		Action: func(c *cli.Context) error {
			loaded, err := p.load(c)
			if err != nil {
				return err
			}
			if err := needRoot("only root may read the node's key"); err != nil {
				return err
			}
			id, err := identity.NodeID(loaded.Config)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.App.Writer, id)
			return err
		},
	}
}

func versionCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Flags: []cli.Flag{outputFlag("text", "text or json")},
		Action: func(c *cli.Context) error {
			switch form := c.String(flagOutput); form {
			case "json":
				return json.NewEncoder(c.App.Writer).Encode(map[string]string{"version": v.Version, "commit": v.Commit})
			case "text":
				_, err := fmt.Fprintf(c.App.Writer, "croftd %s (%s)\n", v.Version, v.Commit)
				return err
			default:
				return usage(errors.Errorf("cannot use output = %q: it must be text or json", form))
			}
		},
	}
}
