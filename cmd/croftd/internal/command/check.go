package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
)

const flagAgainst = "against"

// checked is the outcome of `croftd config check`.
type checked struct {
	File string `json:"file"`
	// Faults are all that is wrong.
	Faults []string `json:"faults"`
	// Checksum and Changes are of a file without a fault; Changes is nil where the other one can't be read, for the
	// reason in Uncompared.
	Checksum   string          `json:"checksum,omitempty"`
	Against    string          `json:"against,omitempty"`
	Changes    *config.Changes `json:"changes,omitempty"`
	Uncompared string          `json:"uncompared,omitempty"`
}

func (p croftd) checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "say all that is wrong in a configuration file, and what a reload of it would restart", ArgsUsage: "FILE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagAgainst, Usage: "compare with the configuration `FILE`", Value: config.DefaultFile},
			outputFlag("text", "text or json"),
		},
		Action: func(c *cli.Context) error {
			file, against, format, err := checkArguments(c)
			if err != nil {
				return usage(err)
			}
			return usage(p.check(file, against).write(c.App.Writer, format))
		},
	}
}

// checkArguments reads the arguments. urfave/cli stops parsing flags at the first argument, but people write
// "check FILE --against FILE".
func checkArguments(c *cli.Context) (file, against, format string, err error) {
	against, format = c.String(flagAgainst), c.String(flagOutput)
	args := c.Args().Slice()
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") && file == "":
			file = arg
		case strings.HasPrefix(arg, "-") && slices.Contains([]string{flagAgainst, flagOutput, "o"}, name) && (has || len(args) > 0):
			if !has {
				value, args = args[0], args[1:]
			}
			if name == flagAgainst {
				against = value
			} else {
				format = value
			}
		default:
			return "", "", "", errors.Errorf("cannot check: one FILE is wanted, %q is too much", arg)
		}
	}
	if file == "" {
		return "", "", "", errors.New("cannot check: a FILE is wanted, such as " + config.DefaultFile)
	}
	if format != "text" && format != "json" {
		return "", "", "", errors.Errorf("cannot print the check as %q: it must be text or json", format)
	}
	return file, against, format, nil
}

// check checks a file and compares it with another. Both are read with this process's environment.
func (p croftd) check(file, against string) checked {
	out := checked{File: file, Faults: []string{}}
	from := config.From{Modules: module.Settings(p.modules), Environ: os.Environ()}
	load := func(name string) (*config.Loaded, []error) {
		f := from
		f.File = name
		return config.Check(f)
	}
	if _, err := os.Stat(file); err != nil { // Load takes the default file's absence for a node without settings
		out.Faults = append(out.Faults, errors.Wrap(err, "cannot read the configuration").Error())
		return out
	}
	loaded, faults := load(file)
	for _, fault := range faults {
		out.Faults = append(out.Faults, fault.Error())
	}
	if len(faults) > 0 {
		return out
	}
	out.Checksum, out.Against = loaded.Checksum(), against
	other, faults := load(against)
	if len(faults) > 0 {
		out.Uncompared = faults[0].Error()
		return out
	}
	changes := config.Diff(other, loaded)
	out.Changes = &changes
	return out
}

// write prints the outcome. Its error says that the file is wrong.
func (k checked) write(w io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(k); err != nil {
			return err
		}
	} else {
		for _, line := range k.lines() {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	if len(k.Faults) > 0 {
		return errors.Errorf("cannot use %s: %d faults", k.File, len(k.Faults))
	}
	return nil
}

func (k checked) lines() []string {
	if len(k.Faults) > 0 {
		return k.Faults
	}
	out := []string{k.File + ": no faults, checksum " + k.Checksum[:12]}
	switch {
	case k.Changes == nil:
		return append(out, "not compared: "+k.Uncompared)
	case k.Changes.Same:
		return append(out, "the same settings as "+k.Against)
	}
	for _, s := range k.Changes.Settings {
		out = append(out, fmt.Sprintf("%s: %q, was %q", s.Name, s.New, s.Old))
	}
	for _, one := range []struct {
		what  string
		names []string
	}{{"modules that a reload restarts", k.Changes.Restart}, {"read again by a reload", k.Changes.Live}, {"needs a restart of croftd", k.Changes.NeedsRestart}} {
		if len(one.names) > 0 {
			out = append(out, one.what+": "+strings.Join(one.names, ", "))
		}
	}
	return out
}
