package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/workload"
)

func (s *shell) importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Category: "projects", Usage: "take reservations that are there into the project", ArgsUsage: "[NAME=ID…]", Action: s.imports,
		Description: "Makes reservations of yours that live stand for workloads of the project file, as if `croft apply` had made them. Nothing is signed, pushed or changed on a node.\n\n" +
			"With NAME=ID these. Without arguments every workload that the project doesn't know gets the reservation that is as the file asks, " +
			"and a network the one of its name: so a project goes on whose state file was lost.\n\n" +
			"`croft plan` says afterwards what isn't as the file asks. Sealed secrets can't be read: they are taken for those of the file.\n\n" +
			"Examples:\n  croft import\n  croft import net1=9-1\n  croft import -f blog.yaml data=7-1 web=8-1 -o json",
		Flags:        []cli.Flag{fileFlag()},
		BashComplete: completeNames,
	}
}

func (s *shell) imports(c *cli.Context) error {
	w, err := s.open(c, holdMust)
	if err != nil {
		return err
	}
	defer w.close()
	if _, err := w.Wanted(w.file); err != nil {
		return err
	}
	chosen, err := choices(c.Args().Slice(), w.file)
	if err != nil {
		return err
	}
	done, err := w.Import(c.Context, w.file, chosen)
	if err != nil {
		return err
	}
	if done == nil {
		done = []deploy.Imported{}
		s.say("there is nothing to import: `croft status` outside of a project shows all of your reservations")
	}
	for _, one := range done {
		if one.Secrets {
			s.say("%s: the secrets of %s can't be compared; they are taken for those of the file", one.Name, one.ID)
		}
	}
	return s.answer(c, done, importedRows(done))
}

// choices reads NAME=ID arguments.
func choices(args []string, f *project.File) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		name, id, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("%q: it must be NAME=ID, as in net1=9-1", arg)
		}
		if _, err := workload.ParseID(id); err != nil {
			return nil, usagef("%q: %q isn't a reservation's ID, as 9-1 is", arg, id)
		}
		if f.Find(name) == nil {
			return nil, usagef("%q: there is no workload %q in project %q", arg, name, f.Project)
		}
		if _, twice := out[name]; twice {
			return nil, usagef("%q: %q is there twice", arg, name)
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
