package identity

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/sign"
)

// maxWords bounds how much is read where 24 words are expected, in bytes.
const maxWords = 4 << 10

// commands are run with the user's key file.
type commands struct{ *shell.Shell }

// Command is `croft id`.
func Command(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "id", Category: "keys", Usage: "make, restore and show your key",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "make a key, and print its ID and its backup words", Action: s.create,
				Description: "Writes the key into the file of --id (mode 0600). An existing file is never replaced. " +
					"Write the 24 words on paper: anybody who has them has the key, and without the file only they restore it.\n\n" +
					"Examples:\n  croft id create\n  croft --id ~/attic.seed id create -o json",
			},
			{
				Name: "restore", Usage: "make the key file again from its 24 words", Action: s.restore,
				Description: "Reads the words from the standard input.\n\nExamples:\n  croft id restore < words.txt",
			},
			{
				Name: "show", Usage: "show your ID", Action: s.show,
				Description: "Examples:\n  croft id show\n  croft id show --words",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "words", Usage: "show the backup words too"}},
			},
		},
	}
}

// identity is the answer of the id commands.
type identity struct {
	ID    string `json:"id"`
	File  string `json:"file"`
	Words string `json:"words,omitempty"`
}

func (s *commands) create(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	key, err := sign.Generate()
	if err != nil {
		return err
	}
	return s.keepKey(c, key, true)
}

func (s *commands) restore(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	if s.Env.Terminal {
		s.Say("Type the 24 words, then Ctrl-D:")
	}
	content, err := io.ReadAll(io.LimitReader(s.Env.Stdin, maxWords))
	if err != nil {
		return errors.Wrap(err, "cannot read words")
	}
	key, err := sign.FromWords(string(content))
	if err != nil {
		return err
	}
	return s.keepKey(c, key, false)
}

// keepKey writes the key file and answers; it never replaces one.
func (s *commands) keepKey(c *cli.Context, key sign.KeyPair, withWords bool) error {
	path, err := s.KeyPath(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Wrap(err, "cannot write key")
	}
	if err := sign.WriteSeedFile(path, key, sign.UserSeedMode); err != nil {
		if errors.Is(err, os.ErrExist) {
			return errors.Errorf("cannot write key: %s exists, and a key is never replaced; name another file with --id", path)
		}
		return err
	}
	return s.showKey(c, key, path, withWords)
}

func (s *commands) showKey(c *cli.Context, key sign.KeyPair, path string, withWords bool) error {
	out := identity{ID: key.ID(), File: path}
	rows := render.Rows{Head: []string{"ID", out.ID}, Rows: [][]string{{"file", path}}}
	if withWords {
		words, err := sign.Words(key)
		if err != nil {
			return err
		}
		out.Words = words
		list := strings.Fields(words)
		for i := 0; i < len(list); i += 6 {
			rows.Rows = append(rows.Rows, []string{fmt.Sprintf("words %d-%d", i+1, i+6), strings.Join(list[i:i+6], " ")})
		}
	}
	return s.Answer(c, out, rows)
}

func (s *commands) show(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	path, err := s.KeyPath(c)
	if err != nil {
		return err
	}
	key, err := shell.ReadKey(path)
	if err != nil {
		return err
	}
	return s.showKey(c, key, path, c.Bool("words"))
}
