package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/provision/persist/mirror"
)

// Flags of store restore.
const (
	flagFrom     = "from"
	flagRecovery = "recovery-seed"
	flagMachine  = "machine"
	flagPartial  = "partial"
)

// mirrorCommands are about the store's mirrors.
func (p croftd) mirrorCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "restore", Usage: "make the store of a stopped node from a mirror; it gets a new birth",
			Flags: append(p.settingFlags(),
				&cli.StringFlag{Name: flagFrom, Usage: "the mirror's `INSTANCE`, as croft get stores names it, or its place as the setting mirrors has it", Required: true},
				&cli.StringFlag{Name: flagRecovery, Usage: "`FILE` of the private recovery key, where the node's own key is lost: this machine becomes the node"},
				&cli.StringFlag{Name: flagMachine, Usage: "`ID` of the node, with --" + flagRecovery},
				&cli.BoolFlag{Name: flagPartial, Usage: "restore what is sound although something is missing or damaged"}),
			Action: p.restore,
		},
		{
			Name: "mirror-replace", Usage: "give up the files of another store that a mirror has: it becomes a mirror of this one", ArgsUsage: "INSTANCE",
			Flags: p.settingFlags(),
			Action: p.ask(func(ctx context.Context, c *cli.Context, n running) error {
				if c.Args().Len() != 1 {
					return usage(errors.New("cannot replace a mirror: one INSTANCE is wanted, as croft get stores names it"))
				}
				instance := c.Args().First()
				return n.give(ctx, c, work.OrderSpec{Kind: work.ReplaceMirror, Target: instance}, instance+" becomes a mirror of this store")
			}),
		},
	}
}

// restore makes the store from a mirror.
func (p croftd) restore(c *cli.Context) error {
	loaded, err := p.load(c)
	if err != nil {
		return err
	}
	if err := needRoot("the node's store and its key are root's"); err != nil {
		return err
	}
	if s, err := (running{loaded.StateSocket}).dial(c.Context); err == nil {
		s.Close()
		return node.Errorf(node.Refused, "cannot restore the store: the node runs; stop it first")
	} else if !errors.Is(err, privatesocket.ErrNotRunning) {
		return err
	}
	report, err := daemon.Restore(c.Context, daemon.Config{Config: loaded.Config, Log: logger(loaded.Config, output(loaded.Config))}, daemon.RestoreOrder{
		From: c.String(flagFrom), RecoverySeed: c.String(flagRecovery), Machine: c.String(flagMachine), Partial: c.Bool(flagPartial),
	})
	if shown := writeReport(c.App.Writer, report); err == nil {
		err = shown
	}
	return err
}

// mostNames is how many names of missing and damaged files are printed.
const mostNames = 100

// writeReport prints what a restore has found.
func writeReport(w io.Writer, r mirror.Report) error {
	if r.Written.IsZero() {
		return nil
	}
	lines := []string{fmt.Sprintf("the mirror is of %s, list %d: %d files are sound, %d missing, %d damaged",
		r.Written.UTC().Format(time.RFC3339), r.Number, r.Files, len(r.Missing), len(r.Damaged))}
	for _, name := range r.Missing[:min(len(r.Missing), mostNames)] {
		lines = append(lines, "missing: "+name)
	}
	damaged := slices.Sorted(maps.Keys(r.Damaged))
	for _, name := range damaged[:min(len(damaged), mostNames)] {
		lines = append(lines, "damaged: "+name+": "+r.Damaged[name])
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
