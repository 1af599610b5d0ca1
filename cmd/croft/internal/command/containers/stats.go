package containers

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Stats is `croft stats`.
func Stats(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "stats", Category: "containers", Usage: "show the resource use of containers", ArgsUsage: "ID|NAME…", Action: s.stats,
		Description: "CPU is the time used since the start; with --watch it is the share of one core since the last line.\n\n" +
			"Examples:\n  croft stats web\n  croft stats --watch web data -o json",
		Flags:        workspace.NodeFlags(&cli.BoolFlag{Name: "watch", Usage: "print a line a reading, until interrupted"}),
		BashComplete: workspace.CompleteNames,
	}
}

// use is one reading, for programs.
type use struct {
	Name string `json:"name"`
	nodeapi.Stats
}

func (s *commands) stats(c *cli.Context) error {
	if c.NArg() == 0 {
		return shell.Usagef("stats takes at least one ID or NAME")
	}
	f, err := s.Output(c)
	if err != nil {
		return err
	}
	all, err := workspace.Targets(s.Shell, c, c.Args().Slice())
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return s.watchStats(c, f, all)
	}
	router := workspace.Router(s.Shell, c)
	uses := []use{}
	out := render.Rows{Head: []string{"NAME", "ID", "CPU", "MEMORY", "LIMIT", "PROCESSES", "READ", "WRITTEN", "RECEIVED", "SENT"}}
	for _, at := range all {
		v, err := statsOf(c, router, at)
		if err != nil {
			return err
		}
		uses = append(uses, use{at.Name, v})
		out.Rows = append(out.Rows, []string{
			at.Name, at.ID, time.Duration(v.CPU).Round(10 * time.Millisecond).String(), render.Bytes(v.Memory), render.Bytes(v.MemoryLimit), fmt.Sprint(v.PIDs),
			render.Bytes(v.BlockRead), render.Bytes(v.BlockWritten), render.Bytes(v.Received), render.Bytes(v.Sent),
		})
	}
	return s.Answer(c, uses, out)
}

func statsOf(c *cli.Context, router *route.Router, at workspace.Target) (nodeapi.Stats, error) {
	conn, err := router.Dial(c.Context, at.Node)
	if err != nil {
		return nodeapi.Stats{}, err
	}
	defer conn.Close()
	return conn.Stats(c.Context, at.ID)
}

// watchStats shows readings of all as they come; the first that fails ends it.
func (s *commands) watchStats(c *cli.Context, f render.Format, all []workspace.Target) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	show := &usePrinter{out: s.Env.Stdout, format: f, last: map[string]nodeapi.Stats{}}
	router := workspace.Router(s.Shell, c)
	failed := make(chan error, len(all))
	for _, at := range all {
		go func() {
			conn, err := router.Dial(ctx, at.Node)
			if err == nil {
				defer conn.Close()
				err = conn.WatchStats(ctx, at.ID, func(v nodeapi.Stats) error { return show.print(at, v) })
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
	out    io.Writer
	format render.Format
	mu     sync.Mutex
	last   map[string]nodeapi.Stats
	begun  bool
}

func (p *usePrinter) print(at workspace.Target, v nodeapi.Stats) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.format {
	case render.JSON:
		return render.JSONLine(p.out, use{at.Name, v})
	case render.YAML:
		if _, err := fmt.Fprintln(p.out, "---"); err != nil {
			return err
		}
		return render.Write(p.out, p.format, use{at.Name, v}, render.Rows{})
	}
	const form = "%-20s %8s %10s %10s %10s %10s %10s %10s\n"
	if !p.begun {
		p.begun = true
		if _, err := fmt.Fprintf(p.out, form, "NAME", "CPU", "MEMORY", "PROCESSES", "READ", "WRITTEN", "RECEIVED", "SENT"); err != nil {
			return err
		}
	}
	share := "-"
	if before, ok := p.last[at.ID]; ok && v.At > before.At && v.CPU >= before.CPU {
		share = fmt.Sprintf("%.1f%%", 100*float64(v.CPU-before.CPU)/float64(v.At-before.At))
	}
	p.last[at.ID] = v
	_, err := fmt.Fprintf(p.out, form, render.Line(at.Label()), share, render.Bytes(v.Memory), fmt.Sprint(v.PIDs),
		render.Bytes(v.BlockRead), render.Bytes(v.BlockWritten), render.Bytes(v.Received), render.Bytes(v.Sent))
	return err
}
