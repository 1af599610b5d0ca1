package projects

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

func recreateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "recreate", Usage: "recreate workloads that the explorer doesn't know any more"}
}

func uncheckedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "unchecked", Usage: "don't check that registries have the images"}
}

// ChangesError says that a plan holds changes. It isn't printed: the plan is.
type ChangesError struct{}

func (ChangesError) Error() string { return "there are changes" }

// planning is the command plan.
type planning struct{ *shell.Shell }

// Plan is `croft plan`.
func Plan(sh *shell.Shell) *cli.Command {
	s := planning{sh}
	return &cli.Command{
		Name: "plan", Category: "projects", Usage: "show what apply would do; change nothing", Action: s.run,
		Description: "Exits with 0 when there is nothing to change, with 2 when there is.\n\n" +
			"A workload that has changed in the file is replaced: its reservation is deleted and a new one made, and a volume's data is lost. " +
			"A network is updated in place, and a new container takes the old one's place once it runs. A workload that isn't in the file any more is deleted by `croft apply --prune` only.\n\n" +
			"Examples:\n  croft plan\n  croft plan -f blog.yaml -o json",
		Flags: []cli.Flag{workspace.FileFlag(), recreateFlag(), uncheckedFlag()},
	}
}

func (s planning) run(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	w, err := workspace.Open(s.Shell, c, workspace.ReadOnly)
	if err != nil {
		return err
	}
	p, err := makePlan(c.Context, w, s.Env.Now(), c.Bool("recreate"))
	if err != nil {
		return err
	}
	if !c.Bool("unchecked") {
		checkImages(c.Context, w, p)
	}
	if err := s.Answer(c, planAnswer(w, p), planRows(p)); err != nil {
		return err
	}
	warnOfSecrets(s.Shell, w.File)
	if err := stopped(p); err != nil {
		return err
	}
	if p.Changed() {
		return ChangesError{}
	}
	return nil
}

// makePlan compares the file's workloads with the explorer's reservations.
func makePlan(ctx context.Context, w *workspace.Workspace, now time.Time, recreate bool) (plan.Plan, error) {
	wanted, err := w.Deploy.Planner.Wanted(w.File)
	if err != nil {
		return plan.Plan{}, err
	}
	seen, err := w.Deploy.Observer.All(ctx, w.State.All())
	if err != nil {
		return plan.Plan{}, err
	}
	if w.Locked() {
		if err := w.Deploy.Planner.Tidy(seen); err != nil {
			return plan.Plan{}, err
		}
	}
	known, err := w.Deploy.Planner.Known(seen)
	if err != nil {
		return plan.Plan{}, err
	}
	outside, err := w.Deploy.Planner.Outside(ctx, wanted)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Make(plan.Input{Now: now, Wanted: wanted, Known: known, Outside: outside, Recreate: recreate}), nil
}

func planAnswer(w *workspace.Workspace, p plan.Plan) any {
	changes := p.Changes
	if changes == nil {
		changes = []plan.Change{}
	}
	return struct {
		Project string        `json:"project"`
		Changed bool          `json:"changed"`
		Changes []plan.Change `json:"changes"`
	}{w.File.Project, p.Changed(), changes}
}

func planRows(p plan.Plan) render.Rows {
	out := render.Rows{Head: []string{"NAME", "TYPE", "NODE", "ACTION", "ID", "WHY"}}
	for _, c := range p.Changes {
		why := c.Reason
		if c.LosesData {
			why += " (its data will be lost)"
		}
		if c.Hint != "" {
			why = hints(why, c.Hint)
		}
		out.Rows = append(out.Rows, []string{c.Name, string(c.Type), c.Node, string(c.Action), c.ID, why})
	}
	return out
}

// losing names the workloads whose data goes.
func losing(p plan.Plan, prune bool) []string {
	var out []string
	for _, c := range p.Losing(prune) {
		out = append(out, fmt.Sprintf("%s (%s %s)", c.Name, c.Type, c.ID))
	}
	return out
}

// warnOfSecrets names variables that look like secrets and aren't sealed.
func warnOfSecrets(s *shell.Shell, f *project.File) {
	for _, w := range f.Workloads {
		if names := w.PlainSecrets(); len(names) > 0 {
			s.Say("%s: anybody can read env on the explorer; if %s is secret, put it into secret_env", w.Name, strings.Join(names, ", "))
		}
	}
}
