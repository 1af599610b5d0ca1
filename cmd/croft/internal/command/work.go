package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
)

// defaultFile is the project file where none is named.
const defaultFile = "croft.yaml"

// defaultTimeout is how long --wait waits.
const defaultTimeout = "10m"

func fileFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the project `FILE` (default: croft.yaml here)", TakesFile: true}
}

func waitFlags(what string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "wait", Usage: "wait until " + what},
		&cli.StringFlag{Name: "timeout", Value: defaultTimeout, Usage: "how long --wait waits, as in 90s, 10m"},
	}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "don't ask before data goes"}
}

// work is a project at hand: its file, its state, and who works on it.
type work struct {
	*deploy.Deployer
	file *project.File
	lock *state.Lock
}

// close gives the state's lock back.
func (w *work) close() {
	if w.lock != nil {
		// The process ends soon, and the kernel gives the lock back then too.
		_ = w.lock.Unlock()
	}
}

// hold says how a command takes the project's state.
type hold int

const (
	// holdNot reads it only.
	holdNot hold = iota
	// holdIfFree takes the lock if nobody has it: what was seen is then remembered.
	holdIfFree
	// holdMust fails when somebody else has it.
	holdMust
)

// open opens the project that the flag names.
func (s *shell) open(c *cli.Context, how hold) (*work, error) {
	path := c.String("file")
	if path == "" {
		path = defaultFile
	}
	f, err := project.Load(path)
	if err != nil {
		return nil, err
	}
	d, err := s.deployer(c)
	if err != nil {
		return nil, err
	}
	w := &work{Deployer: d, file: f}
	at := state.Path(path, f.Project)
	if how != holdNot {
		w.lock, err = state.Hold(at)
		if err != nil && how == holdMust {
			return nil, err
		}
	}
	d.Save = w.lock != nil
	d.Source = project.Source{Getenv: s.env.Getenv, Dir: filepath.Dir(path)}
	if d.State, err = state.Read(at, f.Project, d.Key.ID()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// deployer is one without a project.
func (s *shell) deployer(c *cli.Context) (*deploy.Deployer, error) {
	key, err := s.key(c)
	if err != nil {
		return nil, err
	}
	client, err := s.client(c, false)
	if err != nil {
		return nil, err
	}
	return deploy.New(deploy.Config{Explorer: client, Key: key, Now: s.env.Now, Progress: s.env.Stderr}), nil
}

// hasProject reports whether there is a project to look names up in.
func (s *shell) hasProject(c *cli.Context) bool {
	if c.String("file") != "" {
		return true
	}
	_, err := os.Stat(defaultFile)
	return err == nil
}

// waitFor waits for targets as the flags say.
func (s *shell) waitFor(c *cli.Context, d *deploy.Deployer, targets []deploy.Target) error {
	if !c.Bool("wait") {
		return nil
	}
	limit, err := timeout(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, limit)
	defer cancel()
	return d.Wait(ctx, targets)
}

// timeout reads the flag; it is also called before anything is done.
func timeout(c *cli.Context) (time.Duration, error) {
	d, err := lifetime.Parse(c.String("timeout"))
	if err != nil {
		return 0, &usageError{errors.New("--timeout: " + err.Error())}
	}
	return d, nil
}
