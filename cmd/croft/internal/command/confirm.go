package command

import (
	"bufio"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
)

// confirm asks before data goes; nil when that is fine. Where nobody can be
// asked, --yes is needed.
func (s *shell) confirm(c *cli.Context, what []string) error {
	if len(what) == 0 || c.Bool("yes") {
		return nil
	}
	text := strings.Join(what, ", ")
	if !s.env.Terminal {
		return errors.Errorf("cannot go on: the data of %s would be lost; say --yes if that is wanted", text)
	}
	s.say("The data of %s will be lost. Go on? [y/N]", text)
	line, err := bufio.NewReader(s.env.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return errors.New("cannot go on: nobody answered")
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("cannot go on: the answer wasn't yes; nothing was changed")
	}
	return nil
}
