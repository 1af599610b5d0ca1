package networks

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

// draft is a project file that is about to be changed.
type draft struct {
	// path is the file's as it was named, real where it is behind links.
	path, real string
	content    []byte
	mode       fs.FileMode
	file       *project.File
	// whole is whether all references in the file resolve. A network may be referred to
	// before it is created, but isn't removed while it is referred to.
	whole bool
}

// readDraft reads the project file that the flag names.
func readDraft(c *cli.Context) (*draft, error) {
	d := &draft{path: workspace.Path(c), mode: 0o644}
	var err error
	if d.content, err = project.Read(d.path); err != nil {
		return nil, err
	}
	if d.real, err = filepath.EvalSymlinks(d.path); err != nil {
		return nil, errors.Wrap(err, "cannot read project file")
	}
	if d.file, err = project.ParseLoose(d.path, d.content); err != nil {
		return nil, err
	}
	_, err = project.Parse(d.path, d.content)
	d.whole = err == nil
	info, err := os.Stat(d.real)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read project file")
	}
	d.mode = info.Mode().Perm()
	return d, nil
}

// networkDraft is a draft and the network that the first argument names.
func networkDraft(c *cli.Context, name string) (*draft, *project.Network, error) {
	d, err := readDraft(c)
	if err != nil {
		return nil, nil, err
	}
	n := d.file.FindNetwork(name)
	if n == nil {
		return nil, nil, shell.Usagef("there is no network %q in %s; `croft network create %s` makes one", name, d.path, name)
	}
	return d, n, nil
}

// source opens the secrets that the file names.
func (d *draft) source(env shell.Env) func(*project.Secret) (string, error) {
	from := project.Source{Getenv: env.Getenv, Dir: filepath.Dir(d.path)}
	return func(secret *project.Secret) (string, error) { return secret.Open(from) }
}

// check parses the changed file as plan and apply will.
func (d *draft) check(changed []byte) error {
	f, err := project.ParseLoose(d.path, changed)
	if err == nil && d.whole {
		_, err = project.Parse(d.path, changed)
	}
	if err != nil {
		return errors.WithMessage(err, "the file would be wrong")
	}
	for _, n := range f.Networks {
		for _, name := range f.Parts(n.Name) {
			part := f.Find(name)
			if err := part.Check(part.Node); err != nil {
				return errors.WithMessage(err, "the file would be wrong")
			}
		}
	}
	d.file = f
	return nil
}

// write writes the checked content, unless the file has changed since it was read.
func (d *draft) write(changed []byte) error {
	now, err := os.ReadFile(d.real)
	if err != nil && (d.content != nil || !os.IsNotExist(err)) {
		return errors.Wrap(err, "cannot write project file")
	}
	if !bytes.Equal(now, d.content) {
		return errors.Errorf("cannot write %s: another program has changed it in the meantime; try again", d.path)
	}
	return errors.Wrap(atomicfile.WriteFile(d.real, changed, d.mode), "cannot write project file")
}

// freshDraft is a draft of a file that isn't there; false when it is.
func freshDraft(c *cli.Context) (*draft, bool, error) {
	path := workspace.Path(c)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		return nil, false, nil
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, false, errors.Wrap(err, "cannot write project file")
	}
	return &draft{path: path, real: path, mode: 0o644, whole: true, file: &project.File{Project: projectName(filepath.Base(folder))}}, true, nil
}

// projectName makes a project's name of a folder's.
func projectName(folder string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(folder))
	name = strings.Trim(strings.TrimLeft(name, "-0123456789"), "-")
	if name == "" {
		return "project"
	}
	return name[:min(len(name), 40)]
}

// writeSecret makes a file that only its owner may read. One that is there
// isn't replaced.
func writeSecret(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return errors.Errorf("cannot write %s: it exists, and a key is never replaced", path)
	}
	if err != nil {
		return errors.Wrap(err, "cannot write key")
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return errors.Wrap(err, "cannot write key")
}
