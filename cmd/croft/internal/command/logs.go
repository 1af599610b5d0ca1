package command

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

func (s *shell) logsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Category: "containers", Usage: "read a container's output", ArgsUsage: "ID|NAME", Action: s.logs,
		Description: "Asks the node itself, at its address or through the explorer, which can't read what passes. " +
			"What the container wrote to its standard error comes on the standard error.\n\n" +
			"Examples:\n  croft logs web\n  croft logs -f --tail 20 web\n  croft logs 12-1 --timestamps -o json",
		UseShortOptionHandling: true,
		Flags: talkFlags(
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what comes, until interrupted"},
			&cli.IntFlag{Name: "tail", Value: -1, Usage: "only the last `N` lines of what there is"},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "say when each line came"},
		),
		BashComplete: completeNames,
	}
}

func (s *shell) logs(c *cli.Context) error {
	args, err := arguments(c, 1, 1, "one ID or NAME")
	if err != nil {
		return err
	}
	f, err := s.output(c)
	if err != nil {
		return err
	}
	if n := c.Int("tail"); c.IsSet("tail") && n < 0 {
		return usagef("--tail is %d, it must be 0 or more", n)
	}
	at, err := s.oneTarget(c, args[0])
	if err != nil {
		return err
	}
	conn, err := s.reach(c.Context, c, at.node)
	if err != nil {
		return err
	}
	defer conn.Close()
	o := nodeapi.LogOptions{Tail: c.Int("tail"), Follow: c.Bool("follow")}
	err = conn.Logs(c.Context, at.id, o, func(l nodeapi.LogLine) error { return s.logLine(f, c.Bool("timestamps"), l) })
	if o.Follow && c.Context.Err() != nil {
		return nil // the user has seen enough
	}
	return err
}

// logLine shows a line as it is: it is the user's own program that speaks.
func (s *shell) logLine(f render.Format, stamped bool, l nodeapi.LogLine) error {
	switch f {
	case render.JSON:
		return render.JSONLine(s.env.Stdout, l)
	case render.YAML:
		if _, err := fmt.Fprintln(s.env.Stdout, "---"); err != nil {
			return err
		}
		return render.Write(s.env.Stdout, f, l, render.Rows{})
	}
	to := s.env.Stdout
	if l.Stream == "stderr" {
		to = s.env.Stderr
	}
	text := l.Text + "\n"
	if stamped {
		text = time.Unix(0, l.At).UTC().Format("2006-01-02T15:04:05.000000Z ") + text
	}
	_, err := io.WriteString(to, text)
	return err
}
