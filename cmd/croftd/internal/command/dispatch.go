package command

import (
	"cmp"
	"context"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
)

// dispatch carries out the command that args name; the first of args is the program's own name. It takes the place of the library's App.Run, of
// which it has what croftd's commands use, since that reaches the library's help. That is made of text/template, which looks up methods by names that
// only the program's run tells; for these the linker keeps every exported method of every type, a fifth of croftd: see
// docs/adr/0050-linked-methods.md.
func dispatch(ctx context.Context, app *cli.App, args []string) error {
	root := &cli.Command{Name: app.Name, Usage: app.Usage, Subcommands: app.Commands, Action: app.Action}
	return invocation{app: app, command: root, name: app.Name}.run(cli.NewContext(app, nil, &cli.Context{Context: ctx}), args[min(1, len(args)):])
}

// invocation is a command that the command line names.
type invocation struct {
	app     *cli.App
	command *cli.Command
	// name is how it is called, with the commands that it is below.
	name string
}

// run parses the arguments after the command's name, and carries out the command, or the one below it that they name.
func (i invocation) run(parent *cli.Context, args []string) error {
	set, err := i.parse(args)
	if err != nil {
		return usage(err)
	}
	c := cli.NewContext(i.app, set, parent)
	c.Command = i.command
	rest := c.Args().Slice()
	if !i.command.HideHelp {
		switch {
		case c.Bool(helpFlag().Name):
			return i.help(rest)
		case len(rest) > 0 && len(i.command.Subcommands) > 0 && slices.Contains(helpNames, rest[0]):
			return i.help(rest[1:])
		}
	}
	if len(rest) > 0 {
		if below, there := i.below(rest[0]); there {
			if err := i.early(set, below); err != nil {
				return usage(err)
			}
			return below.run(c, rest[1:])
		}
	}
	if err := cmp.Or(i.required(c), i.excess(rest)); err != nil {
		return usage(err)
	}
	return i.command.Action(c)
}

// early names a flag of the command that stands before the name of one below it. The one below has flags of its own, with the same names: this
// one would be given for nothing, and the wrong node be changed.
func (i invocation) early(set *flag.FlagSet, below invocation) (err error) {
	set.Visit(func(f *flag.Flag) {
		if err == nil {
			err = errors.Errorf("cannot use --%s before %q: flags of %s stand behind its name", f.Name, below.command.Name, below.name)
		}
	})
	return err
}

// excess names the first argument of a command that takes none. Flags behind an argument are arguments too: what they ask for must not be left undone
// without a word.
func (i invocation) excess(rest []string) error {
	switch {
	case len(rest) == 0 || i.command.ArgsUsage != "" || i.command.SkipFlagParsing:
		return nil
	case len(i.command.Subcommands) > 0:
		return errors.Errorf("cannot run %q: no such command; see %s help", rest[0], i.name)
	}
	return errors.Errorf("cannot use %q: %s takes no arguments", rest[0], i.name)
}

// helpNames are the names of the command that shows the help of the one that it is below.
var helpNames = []string{"help", "h"}

// helpFlag is a flag that all commands have but those with HideHelp.
func helpFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true}
}

// flags are the command's flags.
func (i invocation) flags() []cli.Flag {
	if i.command.HideHelp {
		return i.command.Flags
	}
	return append(slices.Clone(i.command.Flags), helpFlag())
}

// below is the command of that name below the command.
func (i invocation) below(name string) (invocation, bool) {
	for _, c := range i.command.Subcommands {
		if c.HasName(name) {
			return invocation{app: i.app, command: c, name: i.name + " " + c.Name}, true
		}
	}
	return invocation{}, false
}

// parse reads flags up to the first other argument.
func (i invocation) parse(args []string) (*flag.FlagSet, error) {
	set := flag.NewFlagSet(i.command.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // its errors are returned as well
	flags := i.flags()
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	if i.command.SkipFlagParsing {
		args = append([]string{"--"}, args...)
	}
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return set, alike(set, flags)
}

// alike gives all names of each flag the value that one of them was given.
func alike(set *flag.FlagSet, flags []cli.Flag) error {
	given := map[string]string{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = f.Value.String() })
	for _, f := range flags {
		used := ""
		for _, name := range f.Names() {
			if _, is := given[name]; is && used != "" {
				return errors.Errorf("cannot use both --%s and --%s: they are one flag", used, name)
			} else if is {
				used = name
			}
		}
		if used == "" {
			continue
		}
		for _, name := range f.Names() {
			if name == used {
				continue
			}
			if err := set.Set(name, given[used]); err != nil {
				return errors.Wrapf(err, "cannot use --%s = %q", used, given[used])
			}
		}
	}
	return nil
}

// required names the flags that must be given and aren't.
func (i invocation) required(c *cli.Context) error {
	var missing []string
	for _, f := range i.command.Flags {
		if r, is := f.(cli.RequiredFlag); is && r.IsRequired() && !c.IsSet(f.Names()[0]) {
			missing = append(missing, f.Names()[0])
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return errors.Errorf("Required flag %q not set", missing[0]) // the library's words, which scripts may know
	}
	return errors.Errorf("Required flags %q not set", strings.Join(missing, ", "))
}
