package command

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
)

func (s *shell) applyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Category: "projects", Usage: "make what the project file asks for", Action: s.apply,
		Description: "Signs and pushes what is missing or has changed, in the order in which workloads need each other. Twice changes nothing. " +
			"When the explorer's answer to a push is lost, apply again: the same document is pushed, and nothing is made twice.\n\n" +
			"Before data goes, it asks; where nobody can be asked, it needs --yes.\n\n" +
			"Examples:\n  croft apply --wait\n  croft apply -f blog.yaml --wait --timeout 2m -o json\n  croft apply --prune --yes",
		Flags: append([]cli.Flag{
			fileFlag(), yesFlag(), recreateFlag(), uncheckedFlag(),
			&cli.BoolFlag{Name: "prune", Usage: "delete what isn't in the file any more"},
		}, waitFlags("every workload is deployed")...),
	}
}

func (s *shell) apply(c *cli.Context) error {
	if _, err := arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	if _, err := timeout(c); err != nil {
		return err
	}
	w, err := s.open(c, holdMust)
	if err != nil {
		return err
	}
	defer w.close()
	// A mistake in the file is found before anything is pushed.
	if _, err := w.Wanted(w.file); err != nil {
		return err
	}
	if err := w.Recover(c.Context); err != nil {
		return err
	}
	if err := w.Retell(c.Context); err != nil {
		return err
	}
	p, err := w.plan(c.Context, c.Bool("recreate"))
	if err != nil {
		return err
	}
	if !c.Bool("unchecked") {
		w.checkImages(c.Context, p)
	}
	return s.carryOut(c, w, p)
}

func (s *shell) carryOut(c *cli.Context, w *work, p plan.Plan) error {
	if err := stopped(p); err != nil {
		return err
	}
	prune := c.Bool("prune")
	if err := s.confirm(c, losing(p, prune)); err != nil {
		return err
	}
	done, err := w.Apply(c.Context, w.file, p, prune)
	if err != nil {
		return err
	}
	s.hints(p, prune)
	s.plainSecrets(w.file)
	for _, n := range w.file.Networks {
		s.apart(n)
	}
	waited := s.waitFor(c, w.Deployer, w.Targets(done))
	if waited == nil && c.Bool("wait") {
		waited = s.stayUp(c, fresh(w, p))
	}
	if err := s.showAfter(c, w, waited); err != nil {
		return err
	}
	return blocked(p)
}

// hints says what is worth knowing and wasn't done.
func (s *shell) hints(p plan.Plan, prune bool) {
	for _, c := range p.Changes {
		if c.Hint != "" {
			s.say("%s: %s", c.Name, c.Hint)
		}
		if c.Action == plan.Delete && !prune {
			s.say("%s: %s; `croft apply --prune` deletes %s", c.Name, c.Reason, c.ID)
		}
	}
}

// stopped is the error of a plan of which nothing may be carried out: it would take
// over what isn't of its project, or put what can't be had in the place of what runs.
func stopped(p plan.Plan) error {
	for _, c := range p.Changes {
		if c.Stops {
			return errors.Errorf("cannot apply %q: %s", c.Name, c.Reason)
		}
	}
	return nil
}

// blocked is the error of what a plan leaves to its reader.
func blocked(p plan.Plan) error {
	for _, c := range p.Changes {
		if c.Action == plan.Blocked {
			return errors.Errorf("cannot apply %q: %s", c.Name, c.Reason)
		}
	}
	return nil
}

// untrusted is the error of what the explorer showed that can't be believed.
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
