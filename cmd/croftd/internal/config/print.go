package config

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
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
		out = append(out, Shown{Name: v.Setting.Name, Value: v.Masked(), Source: v.Source})
	}
	return out
}

// hidden stands for what isn't shown.
const hidden = "xxxxx"

// Masked is the value's text for people: secrets are masked, in a list those of each item.
func (v Value) Masked() string {
	if v.Setting.Kind != List {
		return Masked(v.Text)
	}
	items := wholeItems(v.Text)
	for i, item := range items {
		bare := strings.TrimSpace(item)
		items[i] = strings.Replace(item, bare, Masked(bare), 1)
	}
	return strings.Join(items, ",")
}

// wholeItems splits a list at commas, but for those in the user's part of a URL.
func wholeItems(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if len(out) > 0 && strings.Contains(item, "@") && !strings.Contains(item, "://") && strings.Contains(out[len(out)-1], "://") {
			out[len(out)-1] += "," + item
			continue
		}
		out = append(out, item)
	}
	return out
}

// The digests that pin an artifact's or a flist's content: they aren't secret.
var (
	pinned = regexp.MustCompile(`^[^@]*@sha256:[0-9a-f]{64}$`)
	pin    = regexp.MustCompile(`^sha256=[0-9a-f]{64}$`)
)

// Masked hides what may be secret in one URL: the password, or the user where there is no password: a bus's URL may have its password
// there; the values of options that no setting knows, and a fragment. Another text stays as it is.
func Masked(text string) string {
	scheme, rest, found := strings.Cut(text, "//")
	if !found || scheme != "" && !strings.HasSuffix(scheme, ":") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return scheme + "//" + unread(rest)
	}
	if strings.Contains(u.Path, "@") && u.Host != "" && !pinned.MatchString(u.Path) {
		return scheme + "//" + hidden + rest[strings.LastIndex(rest, "@"):] // the secret has a slash
	}
	out := u.Redacted()
	switch _, has := u.User.Password(); {
	case u.User == nil && u.Fragment == "" && u.RawQuery == "":
		return text
	case u.User == nil:
		out = text
	case !has:
		u.User = url.User(hidden)
		out = u.String()
	}
	out, fragment, _ := strings.Cut(out, "#")
	out, query, _ := strings.Cut(out, "?")
	if query != "" {
		out += "?" + maskedOptions(query)
	}
	switch {
	case pin.MatchString(fragment):
		out += "#" + fragment
	case fragment != "":
		out += "#" + hidden
	}
	return out
}

// unread masks what follows the :// of a text that isn't a URL, perhaps because of its password.
func unread(rest string) string {
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		return hidden + rest[at:]
	}
	rest, query, asks := strings.Cut(rest, "?")
	host, port, has := strings.Cut(rest, ":")
	if has && strings.Trim(port, "0123456789") != "" {
		rest = host + ":" + hidden
	}
	if asks {
		rest += "?" + maskedOptions(query)
	}
	return rest
}

// maskedOptions masks the values of those options of a URL that no setting knows.
func maskedOptions(query string) string {
	options := strings.Split(query, "&")
	for i, option := range options {
		switch name, value, _ := strings.Cut(option, "="); {
		case mirrors.Known(name) || name == "db": // db is of the bus
		case value != "":
			options[i] = name + "=" + hidden
		case option != "":
			options[i] = hidden
		}
	}
	return strings.Join(options, "&")
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
