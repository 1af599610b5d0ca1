package command

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

func (s *shell) statsCommand() *cli.Command {
	return &cli.Command{
		Name: "stats", Category: "containers", Usage: "see what containers use", ArgsUsage: "ID|NAME…", Action: s.stats,
		Description: "CPU is the time used since the start; with --watch it is the share of one core since the last line.\n\n" +
			"Examples:\n  croft stats web\n  croft stats --watch web data -o json",
		Flags:        talkFlags(&cli.BoolFlag{Name: "watch", Usage: "go on, a line a reading, until interrupted"}),
		BashComplete: completeNames,
	}
}

// use is one reading, for programs.
type use struct {
	Name string `json:"name"`
	nodeapi.Stats
}

func (s *shell) stats(c *cli.Context) error {
	if c.NArg() == 0 {
		return usagef("stats takes at least one ID or NAME")
	}
	f, err := s.output(c)
	if err != nil {
		return err
	}
	all, err := s.targets(c, c.Args().Slice())
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return s.watchStats(c, f, all)
	}
	uses := []use{}
	out := render.Rows{Head: []string{"NAME", "ID", "CPU", "MEMORY", "LIMIT", "PROCESSES", "READ", "WRITTEN", "RECEIVED", "SENT"}}
	for _, at := range all {
		v, err := s.statsOf(c, at)
		if err != nil {
			return err
		}
		uses = append(uses, use{at.name, v})
		out.Rows = append(out.Rows, []string{
			at.name, at.id, time.Duration(v.CPU).Round(10 * time.Millisecond).String(), amount(v.Memory), amount(v.MemoryLimit), fmt.Sprint(v.PIDs),
			amount(v.BlockRead), amount(v.BlockWritten), amount(v.Received), amount(v.Sent),
		})
	}
	return s.answer(c, uses, out)
}

func (s *shell) statsOf(c *cli.Context, at target) (nodeapi.Stats, error) {
	conn, err := s.reach(c.Context, c, at.node)
	if err != nil {
		return nodeapi.Stats{}, err
	}
	defer conn.Close()
	return conn.Stats(c.Context, at.id)
}

// watchStats shows readings of all as they come; the first that fails ends it.
func (s *shell) watchStats(c *cli.Context, f render.Format, all []target) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	show := &usePrinter{shell: s, format: f, last: map[string]nodeapi.Stats{}}
	failed := make(chan error, len(all))
	for _, at := range all {
		go func() {
			conn, err := s.reach(ctx, c, at.node)
			if err == nil {
				defer conn.Close()
				err = conn.WatchStats(ctx, at.id, func(v nodeapi.Stats) error { return show.print(at, v) })
			}
			failed <- err
		}()
	}
	var first error
	for range all {
		err := <-failed
		if err != nil && first == nil {
			first = err
			cancel()
		}
	}
	if c.Context.Err() != nil {
		return nil // the user has seen enough
	}
	return first
}

// usePrinter writes readings line by line.
type usePrinter struct {
	*shell
	format render.Format
	mu     sync.Mutex
	last   map[string]nodeapi.Stats
	begun  bool
}

func (p *usePrinter) print(at target, v nodeapi.Stats) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.format {
	case render.JSON:
		return render.JSONLine(p.env.Stdout, use{at.name, v})
	case render.YAML:
		if _, err := fmt.Fprintln(p.env.Stdout, "---"); err != nil {
			return err
		}
		return render.Write(p.env.Stdout, p.format, use{at.name, v}, render.Rows{})
	}
	const form = "%-20s %8s %10s %10s %10s %10s %10s %10s\n"
	if !p.begun {
		p.begun = true
		if _, err := fmt.Fprintf(p.env.Stdout, form, "NAME", "CPU", "MEMORY", "PROCESSES", "READ", "WRITTEN", "RECEIVED", "SENT"); err != nil {
			return err
		}
	}
	share := "-"
	if before, ok := p.last[at.id]; ok && v.At > before.At && v.CPU >= before.CPU {
		share = fmt.Sprintf("%.1f%%", 100*float64(v.CPU-before.CPU)/float64(v.At-before.At))
	}
	p.last[at.id] = v
	_, err := fmt.Fprintf(p.env.Stdout, form, render.Line(at.label()), share, amount(v.Memory), fmt.Sprint(v.PIDs),
		amount(v.BlockRead), amount(v.BlockWritten), amount(v.Received), amount(v.Sent))
	return err
}

// amount is a number of bytes for people.
func amount(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
