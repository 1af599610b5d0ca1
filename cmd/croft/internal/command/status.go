package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

func (s *shell) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Category: "projects", Usage: "show reservations and what their nodes have signed", ArgsUsage: "[ID|NAME…]", Action: s.status,
		Description: "Shows the project of the file; with arguments only these; without a project file all of your reservations at the explorer.\n\n" +
			"STATE is what the node's key has signed for this very document. It is pending while the node hasn't answered, forged when the explorer shows something else than was signed, " +
			"stale when it shows an older answer than was seen before. Forged, stale or unverified answers end with exit code 1.\n\n" +
			"Of your containers their nodes are asked too, for 2 seconds at most: restarts, the last exit code and the last lines, how far an image has come.\n\n" +
			"Examples:\n  croft status\n  croft status -f blog.yaml data\n  croft status 7-1 8-1 -o json",
		Flags:        []cli.Flag{fileFlag()},
		BashComplete: completeNames,
	}
}

func (s *shell) status(c *cli.Context) error {
	rows, err := s.statusOf(c)
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []row{}
	}
	s.askNodes(c, rows)
	if s.explorerAway == nil && len(rows) > 0 {
		s.learnDoors(c, rows)
	}
	if err := s.answer(c, rows, statusRows(rows, s.env.Now())); err != nil {
		return err
	}
	if err := s.lastLines(c, rows); err != nil {
		return err
	}
	if err := unseen(rows); err != nil {
		return err
	}
	return untrusted(rows)
}

func (s *shell) statusOf(c *cli.Context) ([]row, error) {
	args := c.Args().Slice()
	if onlyIDs(args) && (len(args) > 0 || !s.hasProject(c)) && c.String("file") == "" {
		rows, err := s.statusWithoutProject(c, args)
		return rows, s.away(c, err)
	}
	w, err := s.open(c, holdIfFree)
	if err != nil {
		return nil, err
	}
	defer w.close()
	rows, err := s.projectRows(c, w)
	if err != nil || len(args) == 0 {
		return rows, err
	}
	var out []row
	for _, arg := range args {
		found := false
		for _, r := range rows {
			if stands(arg, r.Name) || arg == r.ID {
				out, found = append(out, r), true
			}
		}
		if !found {
			return nil, usagef("there is no reservation for %q in project %q", arg, w.file.Project)
		}
	}
	return out, nil
}

// stands reports whether an argument stands for a workload: it is its name, or
// that of the network that it is a part of.
func stands(arg, name string) bool {
	return arg == name || strings.HasPrefix(name, project.PartName(arg, ""))
}

// rows are those of all the project's reservations.
func (w *work) rows(c *cli.Context) ([]row, error) {
	seen, err := w.ObserveAll(c.Context)
	if err != nil {
		return nil, err
	}
	all := append([]*state.Entry(nil), w.State.All()...)
	if w.Save {
		if err := w.Tidy(seen); err != nil {
			return nil, err
		}
	}
	rows := []row{}
	for _, e := range all {
		r := rowOf(e.Name, seen[e], w.Now())
		if now := w.State.Current[e.Name]; now != nil && slices.Contains(now.Before, e) && r.State == workload.StateOK && r.Problem == "" {
			r.Detail = "it runs until " + now.ID + " has taken its place; " + r.Detail
			if current := seen[now]; current.Verified && current.State == workload.StateOK {
				r.Detail = now.ID + " has taken its place, it is being removed"
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *shell) statusWithoutProject(c *cli.Context, ids []string) ([]row, error) {
	if len(ids) > 0 {
		client, err := s.client(c, false)
		if err != nil {
			return nil, err
		}
		d := deploy.New(deploy.Config{Explorer: client, Now: s.env.Now, Progress: s.env.Stderr})
		return observeIDs(c, d, ids)
	}
	return s.statusOfUser(c)
}

func observeIDs(c *cli.Context, d *deploy.Deployer, ids []string) ([]row, error) {
	var out []row
	for _, id := range ids {
		o, err := d.ObserveID(c.Context, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rowOf("", o, d.Now()))
	}
	return out, nil
}

func (s *shell) statusOfUser(c *cli.Context) ([]row, error) {
	key, err := s.key(c)
	if err != nil {
		return nil, err
	}
	client, err := s.client(c, false)
	if err != nil {
		return nil, err
	}
	all, err := client.ListAll(c.Context, key.ID())
	if err != nil {
		return nil, err
	}
	var out []row
	for _, shown := range all {
		if shown.User != key.ID() {
			continue
		}
		out = append(out, rowOf("", deploy.Judged(nil, shown, state.Seen{}), s.env.Now()))
	}
	return out, nil
}

// onlyIDs reports whether every argument is a reservation's ID.
func onlyIDs(args []string) bool {
	for _, a := range args {
		if _, err := workload.ParseID(a); err != nil {
			return false
		}
	}
	return true
}

// showAfter shows the project as it is after waited has come of it. What went
// wrong first is what it returns.
func (s *shell) showAfter(c *cli.Context, w *work, waited error) error {
	if c.Context.Err() != nil {
		return waited
	}
	rows, err := w.rows(c)
	if err == nil {
		if c.Bool("wait") {
			s.askNodes(c, rows)
		}
		err = s.answer(c, rows, statusRows(rows, s.env.Now()))
	}
	if waited != nil {
		return waited
	}
	if err != nil {
		return err
	}
	return untrusted(rows)
}
