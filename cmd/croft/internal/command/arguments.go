package command

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
)

// completionFlag is the library's: the arguments after it aren't a command line.
const completionFlag = "--generate-bash-completion"

// arranged puts flags where the library looks for them, so that people may
// write them anywhere: the global ones behind the program's name, the
// command's behind the command, then the arguments.
func arranged(app *cli.App, args []string) ([]string, error) {
	if len(args) == 0 || args[len(args)-1] == completionFlag {
		return args, nil
	}
	a := arranger{app: app, commands: app.Commands, out: args[:1:1]}
	a.read(args[1:])
	if a.open != "" {
		return nil, shell.Usagef("flag needs an argument: %s", a.open)
	}
	out := append(a.out, a.global...)
	out = append(out, a.path...)
	out = append(out, a.local...)
	if a.dashes {
		out = append(out, "--")
	}
	return append(out, a.rest...), nil
}

type arranger struct {
	app      *cli.App
	commands []*cli.Command
	command  *cli.Command
	dashes   bool
	// open is a flag at the end whose value is missing.
	open string

	out, global, path, local, rest []string
}

func (a *arranger) read(args []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			a.dashes = true
			a.rest = append(a.rest, args[i+1:]...)
			return
		case len(arg) > 1 && arg[0] == '-':
			i += a.flag(args[i:])
		case len(a.rest) == 0 && a.descend(arg):
			a.path = append(a.path, arg)
		default:
			a.rest = append(a.rest, arg)
		}
	}
}

// flag takes the flag that args begin with, and returns how many more it took.
func (a *arranger) flag(args []string) int {
	name, _, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	to, found := &a.local, (cli.Flag)(nil)
	if a.command != nil {
		found = find(a.command.Flags, name)
	}
	if found == nil {
		if found = find(a.app.Flags, name); found != nil {
			to = &a.global
		}
	}
	*to = append(*to, args[0])
	value, ok := found.(cli.DocGenerationFlag)
	if joined || !ok || !value.TakesValue() {
		return 0
	}
	if len(args) < 2 {
		a.open = args[0]
		return 0
	}
	*to = append(*to, args[1])
	return 1
}

func (a *arranger) descend(name string) bool {
	for _, c := range a.commands {
		if c.HasName(name) {
			a.command, a.commands = c, c.Subcommands
			return true
		}
	}
	return false
}

func find(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}
