package command

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// askTimeout bounds a command's wait for the node.
const askTimeout = 2 * time.Minute

// operatorCommands call a running node through the socket of its state.
func (p croftd) operatorCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "status", Usage: "show the state of the running node",
			Flags: append(p.settingFlags(), outputFlag("table", "table or json")),
			Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
				return p.showStatus(ctx, c, n)
			}),
		},
		{
			Name: "evict", Usage: "take a workload off this machine; its user gets a signed result", ArgsUsage: "ID",
			Flags:  append(p.settingFlags(), &cli.BoolFlag{Name: "yes", Usage: "yes, end the user's workload"}),
			Action: p.ask(evict),
		},
		{
			Name: "reload", Usage: "have the running node read its settings and hooks anew; wrong ones change nothing",
			Flags: p.settingFlags(),
			Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
				return n.give(ctx, c, work.OrderSpec{Kind: work.Reload}, "")
			}),
		},
		{
			Name: "store", Usage: "decide about the node's store",
			Subcommands: append(p.mirrorCommands(), []*cli.Command{
				{
					Name: "accept-older", Usage: "accept reservations that were signed before this store was made",
					Flags: p.settingFlags(),
					Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
						return n.give(ctx, c, work.OrderSpec{Kind: work.AcceptOlder}, "older reservations are accepted from now on")
					}),
				},
				{
					Name: "refuse-older", Usage: "undo accept-older: ended reservations are remembered until their signed end and no longer",
					Flags: p.settingFlags(),
					Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
						return n.give(ctx, c, work.OrderSpec{Kind: work.RefuseOlder}, "older reservations are refused from now on")
					}),
				},
				{
					Name: "restored", Usage: "declare that the store was restored from a backup: it gets a new birth",
					Flags: p.settingFlags(),
					Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
						return n.give(ctx, c, work.OrderSpec{Kind: work.Restored}, "the store has a new birth; reservations signed before it are refused until `croftd store accept-older`")
					}),
				},
			}...),
			Action: func(c *cli.Context) error {
				return usage(errors.New("cannot decide about the store: name croftd store accept-older, refuse-older, restored, restore or mirror-replace"))
			},
		},
	}
}

// ask wraps do with a connection to the node.
func (p croftd) ask(do func(ctx context.Context, c *cli.Context, n running) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		loaded, err := p.load(c)
		if err != nil {
			return err
		}
		if err := needRoot("only root may open the socket of the node's state"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context, askTimeout)
		defer cancel()
		return do(ctx, c, running{socket: loaded.StateSocket})
	}
}

func evict(ctx context.Context, c *cli.Context, n running) error {
	// urfave/cli stops parsing flags at the first argument, but people write "evict 1-1 --yes".
	id, yes := "", c.Bool("yes")
	for _, arg := range c.Args().Slice() {
		switch {
		case arg == "--yes" || arg == "-yes":
			yes = true
		case id == "":
			id = arg
		default:
			return usage(errors.Errorf("cannot evict: one ID is wanted, %q is too much", arg))
		}
	}
	if id == "" {
		return usage(errors.New("cannot evict: an ID is wanted, as croftd status shows it"))
	}
	if !yes {
		return node.Errorf(node.Refused, "cannot evict %s: pass --yes to end the user's workload", id)
	}
	return n.give(ctx, c, work.OrderSpec{Kind: work.Evict, Target: id}, id+" is evicted; its data is kept for the grace period")
}

func (p croftd) showStatus(ctx context.Context, c *cli.Context, n running) error {
	format := c.String(flagOutput)
	if format != "table" && format != "json" {
		return usage(errors.Errorf("cannot print the status as %q: it must be table or json", format))
	}
	s, err := n.status(ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	return writeTable(c.App.Writer, s, time.Now(), p.modules)
}
