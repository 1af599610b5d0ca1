package config

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// Shown is a value in force as it is printed: secrets are masked.
type Shown struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Show returns all values in force, secrets masked.
func (l *Loaded) Show() []Shown {
	out := make([]Shown, 0, len(l.Values))
	for _, v := range l.Values {
		out = append(out, Shown{Name: v.Setting.Name, Value: Masked(v.Text), Source: v.Source})
	}
	return out
}

// Masked hides the password of a URL. Of a bus's URL, which may have the
// password where the user's name is, it hides that.
func Masked(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		// What isn't a URL for the sake of its password is shown without it too.
		from, to := strings.Index(text, "://"), strings.LastIndex(text, "@")
		if from >= 0 && to > from {
			return text[:from+len("://")] + "xxxxx" + text[to:]
		}
		return text
	}
	if u.User == nil {
		return text
	}
	if _, has := u.User.Password(); !has {
		u.User = url.User("xxxxx")
		return u.String()
	}
	return u.Redacted()
}

// Print writes what is in force and from where, as yaml (which can be used as
// a configuration file) or json.
func (l *Loaded) Print(w io.Writer, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(l.Show())
	case "yaml":
		return l.printYAML(w)
	}
	return errors.Errorf("cannot print the configuration as %q: it must be yaml or json", format)
}

func (l *Loaded) printYAML(w io.Writer) error {
	for _, v := range l.Show() {
		value, err := yaml.Marshal(v.Value)
		if err != nil {
			return errors.Wrapf(err, "cannot print %s", v.Name)
		}
		if _, err := fmt.Fprintf(w, "%s: %s # %s\n", v.Name, value[:len(value)-1], v.Source); err != nil {
			return errors.Wrap(err, "cannot print the configuration")
		}
	}
	return nil
}
