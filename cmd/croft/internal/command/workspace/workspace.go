package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// Workspace is a project at hand.
type Workspace struct {
	File  *project.File
	State *state.File
	// Source opens the secrets of the file.
	Source project.Source
	// Deploy carries out plans.
	Deploy *deploy.Deployer
	lock   *state.Lock
}

// Hold says how a command takes the project's state.
type Hold int

const (
	// ReadOnly takes no lock.
	ReadOnly Hold = iota
	// LockIfFree takes the lock if nobody has it; observations are then saved.
	LockIfFree
	// Lock fails when somebody else has the lock.
	Lock
)

// Open opens the project that the flag --file names.
func Open(s *shell.Shell, c *cli.Context, how Hold) (*Workspace, error) {
	path := Path(c)
	f, err := project.Load(path)
	if err != nil {
		return nil, err
	}
	config, err := deployConfig(s, c)
	if err != nil {
		return nil, err
	}
	w := &Workspace{File: f}
	at := state.Path(path, f.Project)
	if how != ReadOnly {
		w.lock, err = state.Hold(at)
		if err != nil && how == Lock {
			return nil, err
		}
	}
	if w.State, err = state.Read(at, f.Project, config.Key.ID()); err != nil {
		w.Close()
		return nil, err
	}
	config.State, config.Save = w.State, w.Locked()
	config.Source = project.Source{Getenv: s.Env.Getenv, Dir: filepath.Dir(path)}
	w.Source, w.Deploy = config.Source, deploy.New(config)
	return w, nil
}

// Locked reports whether the state is locked, and so written.
func (w *Workspace) Locked() bool { return w.lock != nil }

// Close gives the state's lock back.
func (w *Workspace) Close() {
	if w.lock != nil {
		// The process ends soon, and the kernel gives the lock back then too.
		_ = w.lock.Unlock()
	}
}

// Deployer is one without a project.
func Deployer(s *shell.Shell, c *cli.Context) (*deploy.Deployer, error) {
	config, err := deployConfig(s, c)
	if err != nil {
		return nil, err
	}
	return deploy.New(config), nil
}

func deployConfig(s *shell.Shell, c *cli.Context) (deploy.Config, error) {
	key, err := s.Key(c)
	if err != nil {
		return deploy.Config{}, err
	}
	client, err := s.Client(c, false)
	if err != nil {
		return deploy.Config{}, err
	}
	return deploy.Config{Explorer: client, Key: key, Now: s.Env.Now, Progress: s.Env.Stderr}, nil
}

// Present reports whether there is a project to look names up in.
func Present(c *cli.Context) bool {
	if c.String("file") != "" {
		return true
	}
	_, err := os.Stat(defaultFile)
	return err == nil
}

// Split separates arguments into the project's own reservations, by name, and IDs of
// others.
func (w *Workspace) Split(args []string) (names, ids []string, err error) {
	for _, arg := range args {
		var found []string
		for _, name := range w.State.Names() {
			if Names(arg, name) || arg == w.State.Current[name].ID {
				found = append(found, name)
			}
		}
		switch _, parsed := workload.ParseID(arg); {
		case len(found) > 0:
			names = append(names, found...)
		case parsed == nil:
			ids = append(ids, arg)
		default:
			return nil, nil, shell.Usagef("there is no reservation for %q in project %q", arg, w.File.Project)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), ids, nil
}

// Names reports whether an argument names a workload: by its name, or by that of the
// network that it is a part of.
func Names(arg, workload string) bool {
	return arg == workload || strings.HasPrefix(workload, project.PartName(arg, ""))
}

// OnlyIDs reports whether every argument is a reservation's ID.
func OnlyIDs(args []string) bool {
	for _, a := range args {
		if _, err := workload.ParseID(a); err != nil {
			return false
		}
	}
	return true
}
