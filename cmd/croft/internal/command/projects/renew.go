package projects

import (
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/workload"
)

// renewing is the command renew.
type renewing struct{ *shell.Shell }

// Renew is `croft renew`.
func Renew(sh *shell.Shell) *cli.Command {
	s := renewing{sh}
	return &cli.Command{
		Name: "renew", Category: "projects", Usage: "prolong a workload, with its data", ArgsUsage: "ID|NAME", Action: s.run,
		Description: "--for counts from now. The new end must be later than the one it has.\n\n" +
			"Examples:\n  croft renew data --for 30d\n  croft renew 7-1 --until 2027-01-31",
		Flags: []cli.Flag{
			workspace.FileFlag(),
			&cli.StringFlag{Name: "for", Usage: "how long from now, as in 30d"},
			&cli.StringFlag{Name: "until", Usage: "until when, as in 2027-01-31 or 2027-01-31T15:04:05Z"},
		},
		BashComplete: workspace.CompleteNames,
	}
}

func (s renewing) run(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one ID or NAME")
	if err != nil {
		return err
	}
	until, err := s.until(c)
	if err != nil {
		return err
	}
	if workspace.OnlyIDs(args) && !workspace.Present(c) {
		return s.id(c, args[0], until)
	}
	w, err := workspace.Open(s.Shell, c, workspace.Lock)
	if err != nil {
		return err
	}
	defer w.Close()
	names, ids, err := w.Split(args)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		return s.id(c, ids[0], until)
	}
	var rows []row
	for _, name := range names {
		r, err := s.entry(c, w, w.State.Current[name], until)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if len(rows) == 1 {
		return s.showOne(c, rows[0])
	}
	if err := s.Answer(c, rows, statusRows(rows, s.Env.Now())); err != nil {
		return err
	}
	return untrusted(rows)
}

func (s renewing) entry(c *cli.Context, w *workspace.Workspace, e *state.Entry, until time.Time) (row, error) {
	o, err := w.Deploy.Observer.Entry(c.Context, e)
	if err != nil {
		return row{}, err
	}
	if err := renewable(o, until, s.Env.Now()); err != nil {
		return row{}, err
	}
	if err := w.Deploy.Renewer.Entry(c.Context, e, workload.Renewal{Expires: until}, e.Duration); err != nil {
		return row{}, err
	}
	if o, err = w.Deploy.Observer.Entry(c.Context, e); err != nil {
		return row{}, err
	}
	return rowOf(e.Name, o, s.Env.Now()), nil
}

func (s renewing) id(c *cli.Context, id string, until time.Time) error {
	d, err := workspace.Deployer(s.Shell, c)
	if err != nil {
		return err
	}
	o, err := d.Observer.ID(c.Context, id)
	if err != nil {
		return err
	}
	if o.Document.User != d.User {
		return errors.Errorf("cannot renew %s: it is of user %s, and the key is of %s", id, o.Document.User, d.User)
	}
	if err := renewable(o, until, s.Env.Now()); err != nil {
		return err
	}
	if _, err := d.Renewer.Reservation(c.Context, o.Document, workload.Renewal{Expires: until}); err != nil {
		return errors.Wrapf(err, "cannot renew %s", id)
	}
	rows, err := observeIDs(c, d.Observer, []string{id}, s.Env.Now())
	if err != nil {
		return err
	}
	return s.showOne(c, rows[0])
}

func (s renewing) showOne(c *cli.Context, r row) error {
	if err := s.Answer(c, r, statusRows([]row{r}, s.Env.Now())); err != nil {
		return err
	}
	return untrusted([]row{r})
}

// until is the moment that the flags ask for.
func (s renewing) until(c *cli.Context) (time.Time, error) {
	span, moment := c.String("for"), c.String("until")
	if (span == "") == (moment == "") {
		return time.Time{}, shell.Usagef("renew needs either --for or --until")
	}
	if moment != "" {
		t, err := lifetime.ParseTime(moment)
		if err != nil {
			return t, shell.Usage(errors.Wrap(err, "--until"))
		}
		return t, nil
	}
	d, err := lifetime.Parse(span)
	if err != nil {
		return time.Time{}, shell.Usage(errors.Wrap(err, "--for"))
	}
	return s.Env.Now().Add(d), nil
}

// renewable checks that there is something to renew.
func renewable(o deploy.Observation, until, now time.Time) error {
	id := o.Document.ID
	switch {
	case o.State == verdict.Forged || o.Problem != "":
		return &deploy.UntrustedError{What: []string{id + ": " + o.Problem}}
	case o.State == verdict.Unpushed || o.State == verdict.Lost || o.State == verdict.Deleting || workload.Ended(o.State):
		return errors.Errorf("cannot renew %s: it is %s", label(o), o.State)
	case !now.Before(o.Expires):
		return errors.Errorf("cannot renew %s: it has expired at %s", id, o.Expires.UTC().Format(time.RFC3339))
	case !until.After(o.Expires):
		return errors.Errorf("cannot renew %s until %s: it lasts until %s already, and a renewal must be later", id,
			until.UTC().Format(time.RFC3339), o.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

func label(o deploy.Observation) string {
	if o.Document.ID == "" {
		return "it"
	}
	return o.Document.ID
}
