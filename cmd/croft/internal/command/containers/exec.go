package containers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Exec is `croft exec`.
func Exec(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "exec", Category: "containers", Usage: "run a command in a container, or open a VM's console", ArgsUsage: "ID|NAME [-- COMMAND…]", Action: s.exec,
		Description: "Ends with the command's own exit code, and with 1 where croft itself fails. The command ends when croft does.\n\n" +
			"Examples:\n  croft exec web -- ls -l /data\n  croft exec -it web -- sh\n  croft exec -i web -- tar x -C /data < data.tar\n  croft exec -it master",
		UseShortOptionHandling: true,
		Flags: workspace.NodeFlags(
			&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "connect croft's standard input to the command"},
			&cli.BoolFlag{Name: "terminal", Aliases: []string{"t"}, Usage: "run the command in a terminal, connected to croft's"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "an environment variable, as `NAME=VALUE`"},
		),
		BashComplete: workspace.CompleteNames,
	}
}

// ExitError says that a command in a container has ended with that code. It isn't
// printed: the command has written its own output.
type ExitError struct{ Code uint32 }

func (e *ExitError) Error() string { return fmt.Sprintf("the command ended with %d", e.Code) }

func (s *commands) exec(c *cli.Context) error {
	args := c.Args().Slice()
	console := len(args) == 1 && c.Bool("interactive") && c.Bool("terminal")
	if len(args) < 2 && !console {
		return shell.Usagef("exec takes an ID or NAME and a command, as in: croft exec web -- ls -l; for a VM's console: croft exec -it ID")
	}
	o := nodeapi.ExecOptions{Args: args[1:], Env: c.StringSlice("env"), Terminal: c.Bool("terminal")}
	for _, text := range o.Env {
		if strings.Index(text, "=") < 1 {
			return shell.Usagef("--env is %q, it must be NAME=VALUE", text)
		}
	}
	conn, at, err := s.dial(c.Context, c, args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	streams := nodeapi.ExecIO{Stdout: s.Env.Stdout, Stderr: s.Env.Stderr}
	if c.Bool("interactive") {
		streams.Stdin = s.Env.Stdin
	}
	if console {
		streams.Stdin = leaving{s.Env.Stdin}
		if _, err := fmt.Fprintln(s.Env.Stderr, "Ctrl-] leaves the console."); err != nil {
			return err
		}
	}
	code, err := s.execOn(c.Context, conn, at.ID, o, streams)
	if err == nil && code != 0 {
		return &ExitError{code}
	}
	return err
}

// leave is the key that ends a VM's console: Ctrl-].
const leave = 0x1d

// leaving ends at the key leave.
type leaving struct{ from io.Reader }

// Read implements io.Reader.
func (l leaving) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	if i := bytes.IndexByte(p[:n], leave); i >= 0 {
		return i, io.EOF
	}
	return n, err
}

// execOn runs it, with the terminal where there is to be one.
func (s *commands) execOn(ctx context.Context, conn *nodeapi.Conn, id string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error) {
	if !o.Terminal {
		return conn.Exec(ctx, id, o, streams)
	}
	tty, ok := s.Env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		return 0, shell.Usagef("--terminal needs a terminal as the standard input: leave -t out")
	}
	o.Size = sizeOf(tty)
	sizes, stop := watchSize(ctx, tty)
	defer stop()
	streams.Resize = sizes
	before, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return 0, errors.Wrap(err, "cannot use the terminal")
	}
	// Also after a panic, and when a signal has ended the context.
	defer func() { _ = term.Restore(int(tty.Fd()), before) }()
	return conn.Exec(ctx, id, o, streams)
}

func sizeOf(tty *os.File) nodeapi.Size {
	width, height, err := term.GetSize(int(tty.Fd()))
	if err != nil || width <= 0 || height <= 0 || width > 1<<16-1 || height > 1<<16-1 {
		return nodeapi.Size{Width: 80, Height: 24}
	}
	return nodeapi.Size{Width: uint16(width), Height: uint16(height)}
}

// watchSize tells the terminal's size when it changes.
func watchSize(ctx context.Context, tty *os.File) (<-chan nodeapi.Size, func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	sizes := make(chan nodeapi.Size)
	go func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			select {
			case <-ctx.Done():
				return
			case sizes <- sizeOf(tty):
			}
		}
	}()
	return sizes, cancel
}
