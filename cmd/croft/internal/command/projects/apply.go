package projects

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
)

// applying is the command apply.
type applying struct{ *shell.Shell }

// Apply is `croft apply`.
func Apply(sh *shell.Shell) *cli.Command {
	s := applying{sh}
	return &cli.Command{
		Name: "apply", Category: "projects", Usage: "create and update the workloads of the project file", Action: s.run,
		Description: "Signs and pushes missing and changed workloads, in the order of their references. Applying twice changes nothing. " +
			"When the explorer's answer to a push is lost, apply again: the same document is pushed, and nothing is made twice.\n\n" +
			"It asks before data is lost; without a terminal it needs --yes.\n\n" +
			"Examples:\n  croft apply --wait\n  croft apply -f blog.yaml --wait --timeout 2m -o json\n  croft apply --prune --yes",
		Flags: append([]cli.Flag{
			workspace.FileFlag(), yesFlag(), recreateFlag(), uncheckedFlag(),
			&cli.BoolFlag{Name: "prune", Usage: "delete workloads that aren't in the file any more"},
		}, waitFlags("every workload is deployed")...),
	}
}

func (s applying) run(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	if _, err := timeout(c); err != nil {
		return err
	}
	w, err := workspace.Open(s.Shell, c, workspace.Lock)
	if err != nil {
		return err
	}
	defer w.Close()
	// A mistake in the file is found before anything is pushed.
	if _, err := w.Deploy.Planner.Wanted(w.File); err != nil {
		return err
	}
	if err := w.Deploy.Applier.Recover(c.Context); err != nil {
		return err
	}
	if err := w.Deploy.Remover.Retell(c.Context); err != nil {
		return err
	}
	p, err := makePlan(c.Context, w, s.Env.Now(), c.Bool("recreate"))
	if err != nil {
		return err
	}
	if !c.Bool("unchecked") {
		checkImages(c.Context, w, p)
	}
	return s.carryOut(c, w, p)
}

func (s applying) carryOut(c *cli.Context, w *workspace.Workspace, p plan.Plan) error {
	if err := stopped(p); err != nil {
		return err
	}
	prune := c.Bool("prune")
	if err := s.Confirm(c, losing(p, prune)); err != nil {
		return err
	}
	done, err := w.Deploy.Applier.Apply(c.Context, w.File, p, prune)
	if err != nil {
		return err
	}
	s.hints(p, prune)
	warnOfSecrets(s.Shell, w.File)
	for _, n := range w.File.Networks {
		if warning := n.ApartWarning(); warning != "" {
			s.Say("%s", warning)
		}
	}
	waited := waitFor(c, w.Deploy, w.Deploy.Waiter.Targets(done))
	if waited == nil && c.Bool("wait") {
		waited = startWatch{workspace.Router(s.Shell, c), s.Say}.stayUp(c.Context, fresh(w, p))
	}
	if err := showAfter(s.Shell, c, w, waited); err != nil {
		return err
	}
	return blocked(p)
}

// hints prints a plan's hints, and the deletions that weren't asked for.
func (s applying) hints(p plan.Plan, prune bool) {
	for _, c := range p.Changes {
		if c.Hint != "" {
			s.Say("%s: %s", c.Name, c.Hint)
		}
		if c.Action == plan.Delete && !prune {
			s.Say("%s: %s; `croft apply --prune` deletes %s", c.Name, c.Reason, c.ID)
		}
	}
}

// stopped is the error of a plan that may not be carried out: it would take over a
// reservation of another project, or replace a running container by one without an image.
func stopped(p plan.Plan) error {
	for _, c := range p.Changes {
		if c.Stops {
			return errors.Errorf("cannot apply %q: %s", c.Name, c.Reason)
		}
	}
	return nil
}

// blocked is the error of a change that the user has to decide on first.
func blocked(p plan.Plan) error {
	for _, c := range p.Changes {
		if c.Action == plan.Blocked {
			return errors.Errorf("cannot apply %q: %s", c.Name, c.Reason)
		}
	}
	return nil
}

// untrusted is the error of rows that can't be believed.
func untrusted(rows []row) error {
	var what []string
	for _, r := range rows {
		if r.Problem != "" {
			what = append(what, fmt.Sprintf("%s (%s): %s", r.label(), r.ID, r.Problem))
		}
	}
	if len(what) == 0 {
		return nil
	}
	return &deploy.UntrustedError{What: what}
}
