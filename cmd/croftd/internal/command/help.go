package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
)

// help shows the help of the command, or of one below it that rest names. Who asks for the help of help gets this one; arguments of a command without
// any below it don't matter.
func (i invocation) help(rest []string) error {
	if len(rest) == 0 || len(i.command.Subcommands) == 0 || slices.Contains(append([]string{"--help", "-h"}, helpNames...), rest[0]) {
		return i.show(i.app.Writer)
	}
	below, there := i.below(rest[0])
	if !there {
		return usage(errors.Errorf("cannot show help: %s has no command %q", i.name, rest[0]))
	}
	return below.help(rest[1:])
}

// show writes the command's help in the form that the library's has, which croft's other programs show.
func (i invocation) show(out io.Writer) error {
	w := tabwriter.NewWriter(out, 1, 8, 2, ' ', 0)
	options, heading := "[command options]", "OPTIONS"
	if i.name == i.app.Name { // it is below no other
		options, heading = "[global options] command "+options, "GLOBAL "+heading
	}
	fmt.Fprintf(w, "NAME:\n   %s - %s\n\nUSAGE:\n   %s %s", i.name, i.command.Usage, i.name, options)
	if i.command.ArgsUsage != "" {
		fmt.Fprint(w, " ", i.command.ArgsUsage)
	}
	fmt.Fprintln(w)
	i.showCommands(w)
	fmt.Fprintf(w, "\n%s:\n", heading)
	i.showFlags(w)
	return errors.Wrap(w.Flush(), "cannot show help")
}

// showCommands writes the commands below the command, if there are any.
func (i invocation) showCommands(w *tabwriter.Writer) {
	if len(i.command.Subcommands) == 0 {
		return
	}
	fmt.Fprint(w, "\nCOMMANDS:\n")
	for _, c := range i.command.Subcommands {
		if !c.Hidden {
			fmt.Fprintf(w, "   %s\t%s\n", strings.Join(c.Names(), ", "), c.Usage)
		}
	}
	fmt.Fprintf(w, "   %s\tshow a list of commands, or help for one command\n", strings.Join(helpNames, ", "))
	_ = w.Flush() // the flags have columns of their own; show tells an error that lasts
}

// showFlags writes the flags by their categories; those without one come first.
func (i invocation) showFlags(w *tabwriter.Writer) {
	categories := map[string][]cli.Flag{}
	for _, f := range i.flags() {
		category := ""
		if in, is := f.(cli.CategorizableFlag); is {
			category = in.GetCategory()
		}
		categories[category] = append(categories[category], f)
	}
	for _, category := range slices.Sorted(maps.Keys(categories)) {
		flags := categories[category]
		if category != "" {
			fmt.Fprintf(w, "\n   %s\n\n", category)
			slices.SortFunc(flags, func(a, b cli.Flag) int { return strings.Compare(a.Names()[0], b.Names()[0]) })
		}
		for _, f := range flags {
			fmt.Fprintf(w, "   %s\n", f)
		}
		_ = w.Flush() // each category has columns of its own
	}
}
