package config

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

// DefaultFile is read when no other file is named; it may be missing.
const DefaultFile = "/etc/croft/croftd.yaml"

// EnvPrefix starts the environment variables of settings.
const EnvPrefix = "CROFT_"

// usersToo is the setting whose environment variable the user's command reads too. As many shells set
// it, it doesn't override the node's file.
const usersToo = "explorer"

// Env is the environment variable of the setting.
func (s Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// From are the sources of values, beside the defaults.
type From struct {
	// Modules are the settings of the node's modules.
	Modules []Setting
	// File is the configuration file; it may be missing when it is DefaultFile.
	File string
	// Environ is as of os.Environ.
	Environ []string
	// Flags are the flags that were given, by name.
	Flags map[string]string
}

// Value is the effective value of a setting, and its source.
type Value struct {
	Setting Setting
	Text    string
	// Source is "default", "flag --x", "environment CROFT_X" or "FILE line N".
	Source string
}

// Loaded is a configuration with the source of each value.
type Loaded struct {
	Config
	Values []Value
	// File is the configuration file that was read, empty when there was none.
	File string
	// Ignored are environment variables with the prefix of settings that name no setting.
	Ignored []string
}

// Load reads all settings and checks them. Its error is the first of Check.
func Load(from From) (*Loaded, error) {
	loaded, faults := Check(from)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return loaded, nil
}

// Check is Load for people who repair a configuration: it returns all that is wrong.
func Check(from From) (*Loaded, []error) {
	settings := Settings(from.Modules)
	name, file, faults := readFile(from.File, settings)
	env := environment(from.Environ)
	loaded := &Loaded{File: name}
	for _, s := range settings {
		v := Value{Setting: s, Text: s.Default, Source: "default"}
		if set, ok := file[s.Name]; ok {
			v.Text, v.Source = set.text, set.source
		}
		if text, ok := env[s.Env()]; ok {
			if _, said := file[s.Name]; !said || s.Name != usersToo {
				v.Text, v.Source = text, "environment "+s.Env()
			}
			delete(env, s.Env())
		}
		if text, ok := from.Flags[s.Name]; ok {
			v.Text, v.Source = text, "flag --"+s.Name
		}
		v.Text = loaded.expand(v.Text)
		if err := s.Set.Parse(&loaded.Config, v.Text); err != nil {
			faults = append(faults, v.refuse(err.Error()))
		}
		loaded.Values = append(loaded.Values, v)
	}
	delete(env, EnvPrefix+"CONFIG")
	for name := range env {
		loaded.Ignored = append(loaded.Ignored, name)
	}
	slices.Sort(loaded.Ignored)
	if len(faults) > 0 {
		return nil, faults // relations between wrong values would only confuse
	}
	if faults := loaded.validate(); len(faults) > 0 {
		return nil, faults
	}
	return loaded, nil
}

// mostShown bounds how much of a refused value is shown, in bytes.
const mostShown = 256

// refuse is the error of a value that isn't allowed.
func (v Value) refuse(allowed string) error {
	return errors.Errorf("cannot use %s = %q (from %s): it must be %s", v.Setting.Name, clip.Text(v.Masked(), mostShown), v.Source, allowed)
}

// expand replaces the names of earlier settings in a default.
func (l *Loaded) expand(text string) string {
	for _, v := range l.Values {
		text = strings.ReplaceAll(text, "{"+v.Setting.Name+"}", v.Text)
	}
	return text
}

func environment(environ []string) map[string]string {
	out := map[string]string{}
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, EnvPrefix) {
			out[name] = text
		}
	}
	return out
}

// readFile reads the configuration file and returns its name; the default file may be missing.
func readFile(name string, settings []Setting) (string, map[string]fileValue, []error) {
	optional := name == "" || name == DefaultFile
	if name == "" {
		name = DefaultFile
	}
	raw, err := readText(name)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, []error{err}
	}
	values, faults := parseFile(name, raw, settings)
	return name, values, faults
}
