package projects

import (
	"context"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/workload"
)

// deleting is the command delete.
type deleting struct{ *shell.Shell }

// Delete is `croft delete`.
func Delete(sh *shell.Shell) *cli.Command {
	s := deleting{sh}
	return &cli.Command{
		Name: "delete", Category: "projects", Usage: "end reservations before their time", ArgsUsage: "[ID|NAME…]", Action: s.run,
		Description: "Signs deletions and pushes them: of the arguments, or of the whole project when there are none and a file is named. " +
			"Data on volumes is lost: it asks first; without a terminal it needs --yes.\n\n" +
			"Examples:\n  croft delete data --wait\n  croft delete 7-1 --yes --wait\n  croft delete -f blog.yaml --wait",
		Flags:        append([]cli.Flag{workspace.FileFlag(), yesFlag()}, waitFlags("the nodes confirm the deletion")...),
		BashComplete: workspace.CompleteNames,
	}
}

func (s deleting) run(c *cli.Context) error {
	if _, err := timeout(c); err != nil {
		return err
	}
	args := c.Args().Slice()
	if len(args) == 0 && c.String("file") == "" {
		return shell.Usagef("delete needs an ID, a NAME or -f FILE")
	}
	if workspace.OnlyIDs(args) && !workspace.Present(c) {
		return s.ids(c, args)
	}
	w, err := workspace.Open(s.Shell, c, workspace.Lock)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Deploy.Applier.Recover(c.Context); err != nil {
		return err
	}
	if err := w.Deploy.Remover.Retell(c.Context); err != nil {
		return err
	}
	if len(args) == 0 {
		return s.names(c, w, w.State.Names())
	}
	names, ids, err := w.Split(args)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return s.ids(c, ids)
	}
	if len(ids) > 0 {
		return shell.Usagef("%s isn't of project %q: delete it in a call of its own", ids[0], w.File.Project)
	}
	return s.names(c, w, names)
}

// names deletes the project's reservations, and waits also for those
// whose deletion was signed before.
func (s deleting) names(c *cli.Context, w *workspace.Workspace, names []string) error {
	seen, err := w.Deploy.Observer.All(c.Context, w.State.All())
	if err != nil {
		return err
	}
	var data []string
	var alive []string
	for _, name := range names {
		e := w.State.Current[name]
		o := seen[e]
		if o.Verified && o.Problem == "" && workload.Ended(o.State) {
			// It is over already: there is nothing to sign.
			delete(w.State.Current, name)
			continue
		}
		alive = append(alive, name)
		lost, err := dataOf(c.Context, w.Deploy, name, o)
		if err != nil {
			return err
		}
		data = append(data, lost...)
	}
	if err := s.Confirm(c, data); err != nil {
		return err
	}
	if _, err := w.Deploy.Remover.Leave(c.Context, alive); err != nil {
		return err
	}
	waiting := deploy.Applied{Left: append([]*state.Entry(nil), w.State.Leaving...)}
	if err := w.State.Save(); err != nil {
		return err
	}
	if err := showAfter(s.Shell, c, w, waitFor(c, w.Deploy, w.Deploy.Waiter.Targets(waiting))); err != nil {
		return err
	}
	return untold(w)
}

// untold is the error of deletions that the explorer hasn't taken.
func untold(w *workspace.Workspace) error {
	var what []string
	for _, e := range w.State.Leaving {
		if !e.Told {
			what = append(what, fmt.Sprintf("%s (%s)", e.Name, e.ID))
		}
	}
	if len(what) == 0 {
		return nil
	}
	return errors.Errorf("cannot delete %s: the explorer doesn't know it, so the deletion can't reach the node", strings.Join(what, ", "))
}

// dataOf names a reservation whose data would be lost, and the containers that mount it.
func dataOf(ctx context.Context, d *deploy.Deployer, label string, o deploy.Observation) ([]string, error) {
	switch o.Document.Type {
	case workload.TypeVolume, workload.TypeZDB, workload.TypeKubernetes:
	default:
		return nil, nil
	}
	if o.State == workload.StateError || o.State == verdict.Unpushed || o.State == verdict.Lost || o.Document.User != d.User {
		return nil, nil
	}
	users, err := d.Remover.MountedBy(ctx, o.Document)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %s", o.Document.Type, o.Document.ID)
	if len(users) > 0 {
		what += ", mounted by " + strings.Join(users, " and ")
	}
	return []string{fmt.Sprintf("%s (%s)", label, what)}, nil
}

// ids deletes reservations of which nothing is known here.
func (s deleting) ids(c *cli.Context, ids []string) error {
	d, err := workspace.Deployer(s.Shell, c)
	if err != nil {
		return err
	}
	var found []deploy.Observation
	var data []string
	for _, id := range ids {
		o, err := d.Observer.ID(c.Context, id)
		if err != nil {
			return err
		}
		if o.State == verdict.Forged {
			return &deploy.UntrustedError{What: []string{id + ": " + o.Problem}}
		}
		lost, err := dataOf(c.Context, d, id, o)
		if err != nil {
			return err
		}
		found, data = append(found, o), append(data, lost...)
	}
	if err := s.Confirm(c, data); err != nil {
		return err
	}
	var targets []deploy.Target
	for _, o := range found {
		r := o.Document
		if !workload.Ended(o.State) {
			if err := d.Remover.Delete(c.Context, r); err != nil {
				return err
			}
		}
		targets = append(targets, targetOf(d, r, true))
	}
	waited := waitFor(c, d, targets)
	if c.Context.Err() != nil {
		return waited
	}
	rows, err := observeIDs(c, d.Observer, ids, s.Env.Now())
	if err == nil {
		err = s.Answer(c, rows, statusRows(rows, s.Env.Now()))
	}
	if waited != nil || err != nil {
		return first(waited, err)
	}
	return untrusted(rows)
}

// targetOf waits for a reservation that wasn't signed here.
func targetOf(d *deploy.Deployer, r *workload.Reservation, end bool) deploy.Target {
	return deploy.Target{Label: r.ID, ID: r.ID, Node: r.NodeID, End: end, Look: func(ctx context.Context) (deploy.Observation, error) {
		return d.Observer.ID(ctx, r.ID)
	}}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
