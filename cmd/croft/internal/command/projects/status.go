package projects

import (
	"reflect"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// showing is the command status.
type showing struct{ *shell.Shell }

// Status is `croft status`.
func Status(sh *shell.Shell) *cli.Command {
	s := showing{sh}
	return &cli.Command{
		Name: "status", Category: "projects", Usage: "show reservations and what their nodes have signed", ArgsUsage: "[ID|NAME…]", Action: s.run,
		Description: "Shows the project of the file; with arguments only these; without a project file all of your reservations at the explorer.\n\n" +
			"STATE is the state that the node's key has signed for this document. It is pending while the node hasn't answered, forged when the explorer shows another document than the signed one, " +
			"stale when it shows an older answer than one seen before. Forged, stale or unverified answers end with exit code 1.\n\n" +
			"For your containers it also asks their nodes, for 2 seconds at most: restarts, the last exit code, the last lines of output, the progress of an image.\n\n" +
			"Examples:\n  croft status\n  croft status --watch\n  croft status -f blog.yaml data\n  croft status 7-1 8-1 -o json",
		Flags:        []cli.Flag{workspace.FileFlag(), &cli.BoolFlag{Name: flagWatch, Aliases: []string{"w"}, Usage: "show it again whenever it has changed, until Ctrl-C"}},
		BashComplete: workspace.CompleteNames,
	}
}

const flagWatch = "watch"

func (s showing) run(c *cli.Context) error {
	rows, err := s.look(c)
	if err != nil {
		return err
	}
	err = s.show(c, rows)
	if !c.Bool(flagWatch) {
		return err
	}
	return s.watch(c, rows, err)
}

// look is what there is now.
func (s showing) look(c *cli.Context) ([]row, error) {
	router := workspace.Router(s.Shell, c)
	rows, err := s.rows(c, router)
	if err != nil {
		return nil, err
	}
	if rows == nil {
		rows = []row{}
	}
	askNodes(s.Shell, c, router, rows)
	if !router.GivenUp() && len(rows) > 0 {
		router.Learn(c.Context, nodesOf(rows))
	}
	return rows, nil
}

// show prints rows. Its error says which of them can't be trusted.
func (s showing) show(c *cli.Context, rows []row) error {
	if err := s.Answer(c, rows, statusRows(rows, s.Env.Now())); err != nil {
		return err
	}
	if err := lastLines(s.Shell, c, rows); err != nil {
		return err
	}
	if err := unseen(rows); err != nil {
		return err
	}
	return untrusted(rows)
}

// watchEvery is the pause between two looks of --watch.
const watchEvery = 2 * time.Second

// watch shows the rows again whenever they have changed. What is wrong with those shown last, or keeps it from looking, is said, and is the
// error once the user ends it; what is over isn't.
func (s showing) watch(c *cli.Context, shown []row, wrong error) error {
	var said error
	ofShown := wrong
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if said != nil && (wrong == nil || wrong.Error() != said.Error()) {
			said = nil
		}
		if wrong != nil && said == nil {
			said = wrong
			s.Say("%s", s.PlainText(wrong))
		}
		select {
		case <-c.Context.Done():
			return wrong
		case <-tick.C:
		}
		rows, err := s.look(c)
		switch {
		case c.Context.Err() != nil:
			return wrong
		case err != nil:
			wrong = err
		case !reflect.DeepEqual(rows, shown):
			ofShown = s.show(c, rows)
			shown, wrong = rows, ofShown
		default:
			wrong = ofShown
		}
	}
}

func (s showing) rows(c *cli.Context, router *route.Router) ([]row, error) {
	args := c.Args().Slice()
	if workspace.OnlyIDs(args) && (len(args) > 0 || !workspace.Present(c)) && c.String("file") == "" {
		rows, err := s.withoutProject(c, args)
		return rows, router.Away(err)
	}
	how := workspace.LockIfFree
	if c.Bool(flagWatch) {
		how = workspace.ReadOnly // beside other commands on the project
	}
	w, err := workspace.Open(s.Shell, c, how)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	rows, err := s.ofProject(c, w, router)
	if err != nil || len(args) == 0 {
		return rows, err
	}
	var out []row
	for _, arg := range args {
		found := false
		for _, r := range rows {
			if workspace.Names(arg, r.Name) || arg == r.ID {
				out, found = append(out, r), true
			}
		}
		if !found {
			return nil, shell.Usagef("there is no reservation for %q in project %q", arg, w.File.Project)
		}
	}
	return out, nil
}

// rowsOf are those of all the project's reservations.
func rowsOf(c *cli.Context, w *workspace.Workspace, now time.Time) ([]row, error) {
	seen, err := w.Deploy.Observer.All(c.Context, w.State.All())
	if err != nil {
		return nil, err
	}
	all := append([]*state.Entry(nil), w.State.All()...)
	if w.Locked() {
		if err := w.Deploy.Planner.Tidy(seen); err != nil {
			return nil, err
		}
	}
	rows := []row{}
	for _, e := range all {
		r := rowOf(e.Name, seen[e], now)
		if newer := w.State.Current[e.Name]; newer != nil && slices.Contains(newer.Before, e) && r.State == workload.StateOK && r.Problem == "" {
			r.Detail = "it runs until " + newer.ID + " has taken its place; " + r.Detail
			if current := seen[newer]; current.Verified && current.State == workload.StateOK {
				r.Detail = newer.ID + " has taken its place, it is being removed"
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s showing) withoutProject(c *cli.Context, ids []string) ([]row, error) {
	if len(ids) > 0 {
		client, err := s.Client(c, false)
		if err != nil {
			return nil, err
		}
		return observeIDs(c, &deploy.Observer{Explorer: client}, ids, s.Env.Now())
	}
	return s.ofUser(c)
}

func observeIDs(c *cli.Context, o *deploy.Observer, ids []string, now time.Time) ([]row, error) {
	var out []row
	for _, id := range ids {
		seen, err := o.ID(c.Context, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rowOf("", seen, now))
	}
	return out, nil
}

func (s showing) ofUser(c *cli.Context) ([]row, error) {
	key, err := s.Key(c)
	if err != nil {
		return nil, err
	}
	client, err := s.Client(c, false)
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
		out = append(out, rowOf("", deploy.Judged(nil, shown, state.Seen{}), s.Env.Now()))
	}
	return out, nil
}

// showAfter shows the project after an apply or a delete; waited is the error of waiting
// for it. It returns the first error.
func showAfter(s *shell.Shell, c *cli.Context, w *workspace.Workspace, waited error) error {
	if c.Context.Err() != nil {
		return waited
	}
	rows, err := rowsOf(c, w, s.Env.Now())
	if err == nil {
		if c.Bool("wait") {
			askNodes(s, c, workspace.Router(s, c), rows)
		}
		err = s.Answer(c, rows, statusRows(rows, s.Env.Now()))
	}
	if waited != nil {
		return waited
	}
	if err != nil {
		return err
	}
	return untrusted(rows)
}

func nodesOf(rows []row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Node)
	}
	return out
}
