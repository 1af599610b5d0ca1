package clusters

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/kubeconfig"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

// fileMode is that of the files: they hold an administrator's key.
const fileMode fs.FileMode = 0o600

// destination is where a kubeconfig goes.
type destination struct {
	// path is the file's; empty to print it in the form printed.
	path    string
	printed render.Format
	// merge is whether it goes among what the file has, use whether its context becomes the current one then.
	merge, use bool
}

func (s *commands) destination(c *cli.Context) (destination, error) {
	d := destination{path: c.String("out"), merge: c.Bool("merge"), use: c.Bool("use")}
	switch {
	case d.merge && d.path != "":
		return d, shell.Usagef("--out and --merge don't go together")
	case d.use && !d.merge:
		return d, shell.Usagef("--use needs --merge")
	}
	var err error
	if d.printed, err = s.Output(c); err != nil {
		return d, errors.WithMessage(err, "--output is the form of the answer, --out FILE names a file")
	}
	if d.printed == render.Table {
		d.printed = render.YAML
	}
	if d.merge {
		d.path, err = s.userFile()
	}
	return d, err
}

// userFile is the kubeconfig that kubectl changes: of several in KUBECONFIG the first that is there, else the last.
func (s *commands) userFile() (string, error) {
	last := ""
	list, _ := s.Env.Getenv("KUBECONFIG")
	for _, path := range filepath.SplitList(list) {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		last = path
	}
	if last != "" {
		return last, nil
	}
	home, ok := s.Env.Getenv("HOME")
	if !ok || home == "" {
		return "", errors.New("cannot find your kubeconfig: neither KUBECONFIG nor HOME is set; --out names a file")
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// write writes the kubeconfig to the file, whole.
func (d destination) write(config kubeconfig.Config) error {
	if d.merge {
		return d.mergeInto(config)
	}
	text, err := config.YAML()
	if err != nil {
		return err
	}
	return replace(d.path, text)
}

// mergeInto merges while it has the file's lock, which is the one that kubectl takes too.
func (d destination) mergeInto(config kubeconfig.Config) error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return errors.Wrapf(err, "cannot write %s", d.path)
	}
	lock := d.path + ".lock"
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) {
		return errors.Errorf("cannot change %s: another program changes it, or has left %s behind", d.path, lock)
	}
	if err != nil {
		return errors.Wrapf(err, "cannot change %s", d.path)
	}
	_ = f.Close()
	defer os.Remove(lock)
	existing, err := os.ReadFile(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Wrap(err, "cannot merge")
	}
	text, err := kubeconfig.Merge(existing, config, d.use)
	if err != nil {
		return errors.WithMessagef(err, "cannot merge into %s; nothing was changed", d.path)
	}
	return replace(d.path, text)
}

// replace writes a file whole. A symbolic link to it stays one.
func replace(path string, text []byte) error {
	file, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		file = path
	case err != nil:
		return errors.Wrapf(err, "cannot write %s", path)
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return errors.Errorf("cannot write %s: it isn't a file", path)
	}
	return atomicfile.WriteFile(file, text, fileMode)
}
