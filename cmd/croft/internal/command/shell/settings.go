package shell

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

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

// GlobalFlags are those of the whole program.
func GlobalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagExplorer, Usage: "the explorer's `URL` (CROFT_EXPLORER)"},
		&cli.StringFlag{Name: flagID, Usage: "the `FILE` with your key (CROFT_ID; default ~/.config/croft/id.seed)", TakesFile: true},
		&cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "the form of the answer: table, json or yaml (CROFT_OUTPUT; default table)"},
		&cli.StringFlag{Name: flagConfig, Usage: "the `FILE` with your settings (default ~/.config/croft/config.yaml)", TakesFile: true},
		&cli.BoolFlag{Name: flagDebug, Usage: "show errors in full, with the system's own messages, such as of failed connections"},
	}
}

// ReadFlags reads the global flags that change how errors are shown.
func (s *Shell) ReadFlags(c *cli.Context) { s.debug = c.Bool(flagDebug) }

// settingsFile is the content of ~/.config/croft/config.yaml.
type settingsFile struct {
	Explorer string `yaml:"explorer"`
	ID       string `yaml:"id"`
	Output   string `yaml:"output"`
}

// Explorer is the explorer's URL; empty when none is set.
func (s *Shell) Explorer(c *cli.Context) (string, error) { return s.setting(c, flagExplorer) }

// setting is a global value: the flag's, else the environment's, else the file's.
func (s *Shell) setting(c *cli.Context, flag string) (string, error) {
	if v := c.String(flag); v != "" {
		return v, nil
	}
	names := map[string]string{flagExplorer: "CROFT_EXPLORER", flagID: "CROFT_ID", flagOutput: "CROFT_OUTPUT"}
	if v, ok := s.Env.Getenv(names[flag]); ok && v != "" {
		return v, nil
	}
	f, err := s.settingsFile(c)
	return map[string]string{flagExplorer: f.Explorer, flagID: f.ID, flagOutput: f.Output}[flag], err
}

func (s *Shell) settingsFile(c *cli.Context) (settingsFile, error) {
	var out settingsFile
	path := c.String(flagConfig)
	named := path != ""
	if !named {
		dir, err := s.Env.ConfigDir()
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
		return out, errors.Wrap(err, "cannot read settings")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return out, errors.Wrapf(err, "cannot read settings %s (allowed keys are explorer, id and output)", path)
	}
	return out, nil
}

// Client is the explorer's; signed is whether calls are signed with the user's key.
func (s *Shell) Client(c *cli.Context, signed bool) (*explorer.Client, error) {
	url, err := s.Explorer(c)
	if err != nil {
		return nil, err
	}
	if url == "" {
		return nil, Usagef("cannot find the explorer: name it with --explorer URL, CROFT_EXPLORER, or the key explorer in ~/.config/croft/config.yaml")
	}
	config := explorer.Config{URL: url, UserAgent: "croft/" + s.Env.Version, Now: s.Env.Now}
	if signed {
		key, err := s.Key(c)
		if err != nil {
			return nil, err
		}
		config.Signer = explorer.KeySigner(explorer.RoleUser, key)
	}
	client, err := explorer.NewClient(config)
	if err != nil {
		return nil, Usage(err)
	}
	return client, nil
}

// KeyPath is the path of the user's key file.
func (s *Shell) KeyPath(c *cli.Context) (string, error) {
	if path, err := s.setting(c, flagID); err != nil || path != "" {
		return path, err
	}
	dir, err := s.Env.ConfigDir()
	return filepath.Join(dir, "id.seed"), err
}

// Key is the user's.
func (s *Shell) Key(c *cli.Context) (sign.KeyPair, error) {
	path, err := s.KeyPath(c)
	if err != nil {
		return sign.KeyPair{}, err
	}
	return ReadKey(path)
}

// ReadKey reads a key file that only its owner may touch.
func ReadKey(path string) (sign.KeyPair, error) {
	seed, err := sign.ReadPrivateSeedFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return sign.KeyPair{}, errors.Errorf("cannot read key: there is no %s; `croft id create` makes one, --id names another", path)
	}
	return seed.KeyPair, err
}
