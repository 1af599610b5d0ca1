package projects

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/workload"
)

// importing is the command import.
type importing struct{ *shell.Shell }

// Import is `croft import`.
func Import(sh *shell.Shell) *cli.Command {
	s := importing{sh}
	return &cli.Command{
		Name: "import", Category: "projects", Usage: "take existing reservations into the project", ArgsUsage: "[NAME=ID…]", Action: s.run,
		Description: "Assigns your live reservations to workloads of the project file, as if `croft apply` had made them. Nothing is signed, pushed or changed on a node.\n\n" +
			"With NAME=ID, exactly these. Without arguments, each workload without a reservation gets the one that matches the file, " +
			"and a network the one of its name: this recovers a project whose state file was lost.\n\n" +
			"`croft plan` then shows what differs from the file. Sealed secrets can't be compared: they are assumed to be the file's.\n\n" +
			"Examples:\n  croft import\n  croft import net1=9-1\n  croft import -f blog.yaml data=7-1 web=8-1 -o json",
		Flags:        []cli.Flag{workspace.FileFlag()},
		BashComplete: workspace.CompleteNames,
	}
}

func (s importing) run(c *cli.Context) error {
	w, err := workspace.Open(s.Shell, c, workspace.Lock)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Deploy.Planner.Wanted(w.File); err != nil {
		return err
	}
	chosen, err := choices(c.Args().Slice(), w.File)
	if err != nil {
		return err
	}
	done, err := w.Deploy.Importer.Import(c.Context, w.File, chosen)
	if err != nil {
		return err
	}
	if done == nil {
		done = []deploy.Imported{}
		s.Say("there is nothing to import: `croft status` outside of a project shows all of your reservations")
	}
	for _, one := range done {
		if one.Secrets {
			s.Say("%s: the secrets of %s can't be compared; they are assumed to be the file's", one.Name, one.ID)
		}
	}
	return s.Answer(c, done, importedRows(done))
}

// choices reads NAME=ID arguments.
func choices(args []string, f *project.File) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		name, id, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, shell.Usagef("%q: it must be NAME=ID, as in net1=9-1", arg)
		}
		if _, err := workload.ParseID(id); err != nil {
			return nil, shell.Usagef("%q: %q isn't a reservation's ID, as 9-1 is", arg, id)
		}
		if f.Find(name) == nil {
			return nil, shell.Usagef("%q: there is no workload %q in project %q", arg, name, f.Project)
		}
		if _, twice := out[name]; twice {
			return nil, shell.Usagef("%q: %q is given twice", arg, name)
		}
		out[name] = id
	}
	return out, nil
}

func importedRows(done []deploy.Imported) render.Rows {
	out := render.Rows{Head: []string{"NAME", "TYPE", "NODE", "ID", "AS THE FILE ASKS"}}
	for _, one := range done {
		out.Rows = append(out.Rows, []string{one.Name, string(one.Type), one.Node, one.ID, fmt.Sprint(one.Same)})
	}
	return out
}
