package command

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	pkgerrors "github.com/pkg/errors"
	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

// The names of the global flags.
const (
	flagExplorer = "explorer"
	flagID       = "id"
	flagOutput   = "output"
	flagConfig   = "config"
	flagDebug    = "debug"
)

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagExplorer, Usage: "the explorer's `URL` (CROFT_EXPLORER)"},
		&cli.StringFlag{Name: flagID, Usage: "the `FILE` with your key (CROFT_ID; default ~/.config/croft/id.seed)", TakesFile: true},
		&cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "the form of the answer: table, json or yaml (CROFT_OUTPUT; default table)"},
		&cli.StringFlag{Name: flagConfig, Usage: "the `FILE` with your settings (default ~/.config/croft/config.yaml)", TakesFile: true},
		&cli.BoolFlag{Name: flagDebug, Usage: "show errors with all that the system said, such as of connections that failed"},
	}
}

// settingsFile is what ~/.config/croft/config.yaml may hold.
type settingsFile struct {
	Explorer string `yaml:"explorer"`
	ID       string `yaml:"id"`
	Output   string `yaml:"output"`
}

// setting is a global value: the flag's, else the environment's, else the file's.
func (s *shell) setting(c *cli.Context, flag string) (string, error) {
	if v := c.String(flag); v != "" {
		return v, nil
	}
	names := map[string]string{flagExplorer: "CROFT_EXPLORER", flagID: "CROFT_ID", flagOutput: "CROFT_OUTPUT"}
	if v, ok := s.env.Getenv(names[flag]); ok && v != "" {
		return v, nil
	}
	f, err := s.settingsFile(c)
	return map[string]string{flagExplorer: f.Explorer, flagID: f.ID, flagOutput: f.Output}[flag], err
}

func (s *shell) settingsFile(c *cli.Context) (settingsFile, error) {
	var out settingsFile
	path := c.String(flagConfig)
	named := path != ""
	if !named {
		dir, err := s.env.configDir()
		if err != nil {
			// Without a home there is no settings file, and nothing else needs one here.
			return out, nil
		}
		path = filepath.Join(dir, "config.yaml")
	}
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) && !named {
		return out, nil
	}
	if err != nil {
		return out, pkgerrors.Wrap(err, "cannot read settings")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return out, pkgerrors.Wrapf(err, "cannot read settings %s (allowed keys are explorer, id and output)", path)
	}
	return out, nil
}

// output is the form of the answer.
func (s *shell) output(c *cli.Context) (render.Format, error) {
	v, err := s.setting(c, flagOutput)
	if err != nil || v == "" {
		return render.Table, err
	}
	f, err := render.ParseFormat(v)
	if err != nil {
		return "", &usageError{err}
	}
	return f, nil
}

// answer writes a command's answer.
func (s *shell) answer(c *cli.Context, value any, rows render.Rows) error {
	f, err := s.output(c)
	if err != nil {
		return err
	}
	return render.Write(s.env.Stdout, f, value, rows)
}

// client is the explorer's; signed is whether farms are written with the user's key.
func (s *shell) client(c *cli.Context, signed bool) (*explorer.Client, error) {
	url, err := s.setting(c, flagExplorer)
	if err != nil {
		return nil, err
	}
	if url == "" {
		return nil, usagef("cannot find the explorer: name it with --explorer URL, CROFT_EXPLORER, or the key explorer in ~/.config/croft/config.yaml")
	}
	config := explorer.Config{URL: url, UserAgent: "croft/" + s.env.Version, Now: s.env.Now}
	if signed {
		key, err := s.key(c)
		if err != nil {
			return nil, err
		}
		config.Signer = explorer.KeySigner(explorer.RoleUser, key)
	}
	client, err := explorer.NewClient(config)
	if err != nil {
		return nil, &usageError{err}
	}
	return client, nil
}

// keyPath is where the user's key lies.
func (s *shell) keyPath(c *cli.Context) (string, error) {
	if path, err := s.setting(c, flagID); err != nil || path != "" {
		return path, err
	}
	dir, err := s.env.configDir()
	return filepath.Join(dir, "id.seed"), err
}

// key is the user's.
func (s *shell) key(c *cli.Context) (sign.KeyPair, error) {
	path, err := s.keyPath(c)
	if err != nil {
		return sign.KeyPair{}, err
	}
	return readKey(path)
}
