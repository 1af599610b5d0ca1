package containers

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Logs is `croft logs`.
func Logs(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "logs", Category: "containers", Usage: "read a container's output", ArgsUsage: "ID|NAME", Action: s.logs,
		Description: "Asks the node itself, at its address or through the explorer, which can't read the traffic. " +
			"The container's standard error is printed on the standard error.\n\n" +
			"Examples:\n  croft logs web\n  croft logs -f --tail 20 web\n  croft logs 12-1 --timestamps -o json",
		UseShortOptionHandling: true,
		Flags: workspace.NodeFlags(
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "print new output as it is written, until interrupted"},
			&cli.IntFlag{Name: "tail", Value: -1, Usage: "print only the last `N` existing lines"},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "print each line's time"},
		),
		BashComplete: workspace.CompleteNames,
	}
}

// commands are run on containers at their nodes.
type commands struct{ *shell.Shell }

// dial finds the container that an argument names, and connects to its node.
func (s *commands) dial(ctx context.Context, c *cli.Context, arg string) (*nodeapi.Conn, workspace.Target, error) {
	at, err := workspace.OneTarget(s.Shell, c, arg)
	if err != nil {
		return nil, at, err
	}
	conn, err := workspace.Router(s.Shell, c).Dial(ctx, at.Node)
	return conn, at, err
}

func (s *commands) logs(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one ID or NAME")
	if err != nil {
		return err
	}
	f, err := s.Output(c)
	if err != nil {
		return err
	}
	if n := c.Int("tail"); c.IsSet("tail") && n < 0 {
		return shell.Usagef("--tail is %d, it must be 0 or more", n)
	}
	conn, at, err := s.dial(c.Context, c, args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	o := nodeapi.LogOptions{Tail: c.Int("tail"), Follow: c.Bool("follow")}
	err = conn.Logs(c.Context, at.ID, o, func(l nodeapi.LogLine) error { return s.logLine(f, c.Bool("timestamps"), l) })
	if o.Follow && c.Context.Err() != nil {
		return nil // the user has seen enough
	}
	return err
}

// logLine shows a line as it is: it is the user's own program that speaks.
func (s *commands) logLine(f render.Format, stamped bool, l nodeapi.LogLine) error {
	switch f {
	case render.JSON:
		return render.JSONLine(s.Env.Stdout, l)
	case render.YAML:
		if _, err := fmt.Fprintln(s.Env.Stdout, "---"); err != nil {
			return err
		}
		return render.Write(s.Env.Stdout, f, l, render.Rows{})
	}
	to := s.Env.Stdout
	if l.Stream == "stderr" {
		to = s.Env.Stderr
	}
	text := l.Text + "\n"
	if stamped {
		text = time.Unix(0, l.At).UTC().Format("2006-01-02T15:04:05.000000Z ") + text
	}
	_, err := io.WriteString(to, text)
	return err
}
