package containers

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Events is `croft events`.
func Events(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "events", Category: "projects", Usage: "show what has happened to a workload on its node", ArgsUsage: "ID|NAME", Action: s.events,
		Description: "The node keeps events for 30 days at most; it counts repetitions.\n\nExamples:\n  croft events web\n  croft events 7-1 -o json",
		Flags:       workspace.NodeFlags(), BashComplete: workspace.CompleteNames,
	}
}

func (s *commands) events(c *cli.Context) error {
	if c.NArg() != 1 {
		return shell.Usagef("events takes one ID or NAME")
	}
	all, err := workspace.Targets(s.Shell, c, c.Args().Slice())
	if err != nil {
		return err
	}
	conn, err := workspace.Router(s.Shell, c).Dial(c.Context, all[0].Node)
	if err != nil {
		return err
	}
	defer conn.Close()
	events, err := conn.Events(c.Context, all[0].ID)
	if err != nil {
		return err
	}
	out := render.Rows{Head: []string{"LAST", "KIND", "REASON", "OPERATION", "COUNT", "MESSAGE"}}
	for _, e := range events {
		out.Rows = append(out.Rows, []string{e.Last.UTC().Format(time.RFC3339), e.Kind, e.Reason, e.Operation, fmt.Sprint(e.Count), render.Line(e.Message)})
	}
	if events == nil {
		events = []nodeapi.Event{}
	}
	return s.Answer(c, events, out)
}
