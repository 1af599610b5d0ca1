package sshclient

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/clip"
)

// Cause is why ssh gave no output.
type Cause string

// The causes.
const (
	// Unreachable: there is no connection to the machine, or it was lost.
	Unreachable Cause = "unreachable"
	// WrongHost: the machine's host key isn't one of the known ones.
	WrongHost Cause = "wrong host"
	// Denied: the machine doesn't accept the user's key.
	Denied Cause = "denied"
	// CommandFailed: the command on the machine has ended with an error.
	CommandFailed Cause = "command failed"
	// TooMuch: the command has written more than is taken.
	TooMuch Cause = "too much"
)

// Failure is a run of ssh that gave no output.
type Failure struct {
	Cause Cause
	// Text is the end of what ssh and the command have written on the standard error, as one line without control characters.
	Text string
}

func (f *Failure) Error() string {
	if f.Text == "" {
		return fmt.Sprintf("ssh gave no output: %s", f.Cause)
	}
	return f.Text
}

// exitOwn is ssh's exit code of its own failures; others are the command's.
const exitOwn = 255

// failure is the error of a run; nil for none.
func (c Config) failure(ctx context.Context, err error, stdout *bounded, stderr string) error {
	var exit *exec.ExitError
	switch {
	case stdout.over:
		return &Failure{Cause: TooMuch, Text: fmt.Sprintf("it has written more than %d bytes", stdout.most)}
	case ctx.Err() != nil:
		return errors.Wrap(ctx.Err(), "cannot wait for ssh")
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // ssh has ended well, and a program that it started runs on
		return nil
	case !errors.As(err, &exit):
		return errors.Wrapf(err, "cannot run %s", c.Program)
	}
	lines := plainLines(stderr)
	f := &Failure{Cause: CommandFailed, Text: ending(lines)}
	if exit.ExitCode() != exitOwn && exit.Exited() {
		return f
	}
	f.Cause = c.causeOf(lines)
	return f
}

// causeOf reads what ssh says of its own failure: its exit code says no more. A jump host's failures are none of the
// machine's; its ssh writes them to the same place, before ours finds that the connection is lost.
func (c Config) causeOf(lines []string) Cause {
	if len(lines) > 0 && strings.Contains(lines[len(lines)-1], ": Permission denied (") {
		return Denied
	}
	for _, line := range lines {
		if strings.Contains(line, " "+c.Alias+" ") && strings.Contains(line, "you have requested strict checking") {
			return WrongHost
		}
	}
	return Unreachable
}

// plainLines are the lines that aren't empty, without control characters.
func plainLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(render.Line(line)); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// ending joins the last few lines.
func ending(lines []string) string {
	const most, longest = 3, 300
	lines = lines[max(0, len(lines)-most):]
	short := make([]string, len(lines))
	for i, line := range lines {
		short[i] = clip.Text(line, longest)
	}
	return strings.Join(short, "; ")
}
