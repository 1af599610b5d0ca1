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

// Shown is an effective value as printed: secrets are masked.
type Shown struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Show returns all effective values, secrets masked.
func (l *Loaded) Show() []Shown {
	out := make([]Shown, 0, len(l.Values))
	for _, v := range l.Values {
		out = append(out, Shown{Name: v.Setting.Name, Value: Masked(v.Text), Source: v.Source})
	}
	return out
}

// Masked hides the password of a URL. Where a URL has a user but no password it hides the user: a bus's
// URL may have its password there.
func Masked(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		// Text that doesn't parse as a URL because of its password is masked too.
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

// Print writes the effective values and their sources, as yaml (usable as a configuration file) or
// json.
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
