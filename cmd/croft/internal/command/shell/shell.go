package shell

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

// Env is the process around the command.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks a variable up.
	Getenv func(name string) (string, bool)
	Now    func() time.Time
	// Terminal is whether a person can be asked.
	Terminal bool
	Version  string
	Commit   string
}

// ConfigDir is the folder of the user's own files.
func (e Env) ConfigDir() (string, error) {
	if dir, ok := e.Getenv("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "croft"), nil
	}
	home, ok := e.Getenv("HOME")
	if !ok || home == "" {
		return "", errors.New("cannot find your files: HOME isn't set; name the key with --id")
	}
	return filepath.Join(home, ".config", "croft"), nil
}

// Shell serves one run of the command line.
type Shell struct {
	Env Env
	// debug shows errors with everything that the system reported.
	debug bool
}

// Say writes a line to the standard error. Text of others may be in it, so control
// characters are taken out; a line that can't be written stops nothing.
func (s *Shell) Say(format string, args ...any) {
	_, _ = fmt.Fprintln(s.Env.Stderr, render.Line(fmt.Sprintf(format, args...)))
}

// Output is the form of the answer.
func (s *Shell) Output(c *cli.Context) (render.Format, error) {
	v, err := s.setting(c, flagOutput)
	if err != nil || v == "" {
		return render.Table, err
	}
	f, err := render.ParseFormat(v)
	if err != nil {
		return "", Usage(err)
	}
	return f, nil
}

// Answer writes a command's answer.
func (s *Shell) Answer(c *cli.Context, value any, rows render.Rows) error {
	f, err := s.Output(c)
	if err != nil {
		return err
	}
	return render.Write(s.Env.Stdout, f, value, rows)
}

// Confirm asks before data is lost; nil when the user agrees. Where nobody can
// be asked, --yes is needed.
func (s *Shell) Confirm(c *cli.Context, what []string) error {
	if len(what) == 0 || c.Bool("yes") {
		return nil
	}
	text := strings.Join(what, ", ")
	if !s.Env.Terminal {
		return errors.Errorf("cannot go on: the data of %s would be lost; pass --yes to agree", text)
	}
	s.Say("The data of %s will be lost. Go on? [y/N]", text)
	line, err := bufio.NewReader(s.Env.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return errors.New("cannot go on: there was no answer")
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("cannot go on: the answer wasn't yes; nothing was changed")
	}
	return nil
}
