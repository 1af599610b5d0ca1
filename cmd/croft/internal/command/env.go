package command

import (
	"io"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// Env is the process around the command.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks a variable up.
	Getenv func(name string) (string, bool)
	Now    func() time.Time
	// Terminal is whether somebody can be asked.
	Terminal bool
	Version  string
	Commit   string
}

// configDir is where the user's own files lie.
func (e Env) configDir() (string, error) {
	if dir, ok := e.Getenv("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "croft"), nil
	}
	home, ok := e.Getenv("HOME")
	if !ok || home == "" {
		return "", errors.New("cannot find your files: HOME isn't set; name the key with --id")
	}
	return filepath.Join(home, ".config", "croft"), nil
}
