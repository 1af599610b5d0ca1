// Package inspect has the commands that show what the node of this machine knows: get, dump, graph.
package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/get"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/stateview"
)

// The state socket's flag, its environment variable and its default.
const (
	flagStateSocket    = "state-socket"
	envStateSocket     = "CROFT_STATE_SOCKET"
	defaultStateSocket = "/run/croft/state.sock"
)

// completionTimeout bounds the completion's question to the node.
const completionTimeout = 2 * time.Second

// commands are those on the node of this machine.
type commands struct{ *shell.Shell }

// Get is `croft get`.
func Get(sh *shell.Shell) *cli.Command {
	s := commands{sh}
	return &cli.Command{
		Name: "get", Category: "on a node", Usage: "show what a node knows, and watch it", ArgsUsage: "TYPE [ID] | types", Action: s.get,
		Description: "Reads the state of the node on this machine, as root. `croft get types` lists the types and their aliases.\n" +
			"--watch shows what is there, then a line a change, until interrupted. --wait-for waits until the resource, or all\n" +
			"that are listed, have a condition: its status is True unless you say another.\n\n" +
			"Examples:\n  croft get types\n  croft get workloads -l user=5f4N…\n  croft get workload 7-1 -o yaml\n  croft get events --watch\n" +
			"  croft get workload 7-1 --wait-for Provisioned --timeout 1m\n  croft get workload 7-1 --wait-for InSync=False",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "the `NAMESPACE` (default: the type's own)"},
			&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "only resources with this label, `NAME=VALUE`; may be given several times"},
			&cli.BoolFlag{Name: "watch", Usage: "show each change, until interrupted"},
			&cli.StringFlag{Name: "wait-for", Usage: "wait for a condition, `CONDITION` or CONDITION=STATUS"},
			&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "how long --wait-for waits"},
			&cli.StringFlag{Name: flagStateSocket, Usage: "the node's state socket (" + envStateSocket + "; default " + defaultStateSocket + ")", TakesFile: true},
		},
		BashComplete: s.completeTypes,
	}
}

// path is a setting of the node's: the flag's, else the environment's, else the default.
func (s commands) path(c *cli.Context, flag, env, byDefault string) string {
	if v := c.String(flag); v != "" {
		return v
	}
	if v, ok := s.Env.Getenv(env); ok && v != "" {
		return v
	}
	return byDefault
}

// dial connects to the node; a watch that is cut isn't resumed, because the user would miss changes.
func (s commands) dial(ctx context.Context, c *cli.Context) (*statesocket.Client, error) {
	return statesocket.Dial(ctx, s.path(c, flagStateSocket, envStateSocket, defaultStateSocket), client.WithDisableWatchRetry())
}

func (s commands) get(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 2, "one TYPE, and an ID if you want one resource; `croft get types` lists the types")
	if err != nil {
		return err
	}
	request, err := requestOf(c, args)
	if err != nil {
		return shell.Usage(err)
	}
	format, err := s.Output(c)
	if err != nil {
		return err
	}
	node, err := s.dial(c.Context, c)
	if err != nil {
		return err
	}
	defer node.Close()
	getter := get.Getter{State: node, Out: s.Env.Stdout, Format: format}
	types, err := getter.Types(c.Context)
	if err != nil {
		return err
	}
	if args[0] == "types" {
		if len(args) > 1 || request.Watch || request.WaitFor != nil || len(request.Labels) > 0 || request.Namespace != "" {
			return shell.Usagef("get types takes no ID, and no flag but -o and --%s", flagStateSocket)
		}
		return getter.ShowTypes(types)
	}
	t, err := types.Find(args[0])
	if err != nil {
		return shell.Usage(err)
	}
	return getter.Run(c.Context, t, request)
}

func requestOf(c *cli.Context, args []string) (get.Request, error) {
	labels, err := get.ParseLabels(c.StringSlice("label"))
	if err != nil {
		return get.Request{}, err
	}
	r := get.Request{Namespace: c.String("namespace"), Labels: labels, Watch: c.Bool("watch"), Timeout: c.Duration("timeout")}
	if len(args) > 1 {
		r.ID = args[1]
	}
	if text := c.String("wait-for"); text != "" {
		if r.WaitFor, err = get.ParseWanted(text); err != nil {
			return r, err
		}
	}
	switch {
	case r.ID != "" && len(labels) > 0:
		return r, shell.Usagef("get takes either an ID or --label")
	case r.Watch && r.WaitFor != nil:
		return r, shell.Usagef("get takes either --watch or --wait-for")
	case c.IsSet("timeout") && r.WaitFor == nil:
		return r, shell.Usagef("--timeout is for --wait-for")
	case r.Timeout <= 0:
		return r, shell.Usagef("--timeout is %s; it must be more than 0s", r.Timeout)
	}
	return r, nil
}

// completeTypes offers the node's types, if there is a node.
func (s commands) completeTypes(c *cli.Context) {
	if c.NArg() == 0 {
		_, _ = fmt.Fprintln(c.App.Writer, "types")
		ctx, cancel := context.WithTimeout(c.Context, completionTimeout)
		defer cancel()
		if node, err := s.dial(ctx, c); err == nil {
			defer node.Close()
			types, _ := stateview.ReadTypes(ctx, node)
			for _, t := range types {
				_, _ = fmt.Fprintln(c.App.Writer, strings.ToLower(t.Display))
			}
		}
	}
	cli.DefaultCompleteWithFlags(c.Command)(c)
}
