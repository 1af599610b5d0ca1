package projects

import (
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
)

// ofProject are the project's rows as the explorer shows them; while it is away,
// as they were signed, for their nodes to be asked.
func (s showing) ofProject(c *cli.Context, w *workspace.Workspace, router *route.Router) ([]row, error) {
	rows, err := rowsOf(c, w, s.Env.Now())
	if err == nil {
		return rows, nil
	}
	var away *route.AwayError
	if !errors.As(router.Away(err), &away) {
		return nil, err
	}
	router.GiveUp(away)
	s.Say("croft: %s; asking the nodes themselves", s.PlainText(away))
	rows = []row{}
	for _, e := range w.State.All() {
		own, err := e.Reservation()
		if err != nil {
			return nil, err
		}
		o := deploy.Observation{Verdict: verdict.Verdict{State: verdict.Unseen}, Document: own, Expires: own.Expires()}
		if e.ID == "" {
			o.State = verdict.Unpushed
		}
		r := rowOf(e.Name, o, s.Env.Now())
		r.deletion = own.Deletion != nil
		rows = append(rows, r)
	}
	return rows, nil
}

// unseen is the error of rows about which neither the explorer nor a node has answered.
func unseen(rows []row) error {
	var what []string
	for _, r := range rows {
		if r.State == verdict.Unseen {
			what = append(what, r.label())
		}
	}
	if len(what) == 0 {
		return nil
	}
	return errors.Errorf("cannot show the state of %s: the explorer is away, and the node isn't reached at an address of its own", strings.Join(what, ", "))
}
