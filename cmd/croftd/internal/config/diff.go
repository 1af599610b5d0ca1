package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
)

// Change is a setting whose effect differs between two configurations. Secrets are masked.
type Change struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// ReadBy are its readers.
	ReadBy []string `json:"read_by"`
}

// Changes are what a reload does.
type Changes struct {
	// Same is whether every setting has the same effect.
	Same     bool     `json:"same"`
	Settings []Change `json:"settings"`
	// Restart are the modules to restart, in alphabetical order.
	Restart []string `json:"restart"`
	// NeedsRestart are the settings that take effect when croftd is started again, Live those that are read again and
	// restart nothing.
	NeedsRestart []string `json:"needs_restart"`
	Live         []string `json:"live"`
}

// Diff compares two configurations of a node. It compares what settings' texts mean: 60s is 1m.
func Diff(before, after *Loaded) Changes {
	out := Changes{Settings: []Change{}, Restart: []string{}, NeedsRestart: []string{}, Live: []string{}}
	for _, v := range after.Values {
		was := before.value(v.Setting.Name)
		if v.sameAs(was) {
			continue
		}
		out.Settings = append(out.Settings, Change{Name: v.Setting.Name, Old: was.Masked(), New: v.Masked(), ReadBy: v.Setting.ReadBy})
		for _, reader := range v.Setting.ReadBy {
			switch {
			case slices.Contains(v.Setting.ReadBy, Process):
				// Half a change is none: its modules see it with the others.
				if reader == Process {
					out.NeedsRestart = append(out.NeedsRestart, v.Setting.Name)
				}
			case reader == Live:
				out.Live = append(out.Live, v.Setting.Name)
			case !slices.Contains(out.Restart, reader):
				out.Restart = append(out.Restart, reader)
			}
		}
	}
	slices.Sort(out.Restart)
	out.Same = len(out.Settings) == 0
	return out
}

// sameAs reports whether two values of a setting have the same effect.
func (v Value) sameAs(other Value) bool {
	if v.Text == other.Text {
		return true
	}
	var a, b Config
	return v.Setting.Set.Parse(&a, v.Text) == nil && v.Setting.Set.Parse(&b, other.Text) == nil && reflect.DeepEqual(a, b)
}

// Adopt is what is in force after a reload that reads after: all of after, but for what takes effect when croftd is started
// again.
func (l *Loaded) Adopt(after *Loaded) (*Loaded, error) {
	out := &Loaded{File: after.File, Ignored: after.Ignored}
	for _, v := range after.Values {
		if slices.Contains(v.Setting.ReadBy, Process) {
			v = l.value(v.Setting.Name)
		}
		if err := v.Setting.Set.Parse(&out.Config, v.Text); err != nil {
			return nil, v.refuse(err.Error())
		}
		out.Values = append(out.Values, v)
	}
	if faults := out.validate(); len(faults) > 0 {
		return nil, faults[0]
	}
	return out, nil
}

// Checksum identifies the settings in force, for people and logs. It is of masked texts: it tells nothing of a
// password, and doesn't change with one.
func (l *Loaded) Checksum() string {
	sum := sha256.New()
	for _, v := range l.Values {
		text := v.Masked()
		var effect Config
		if v.Setting.Set.Parse(&effect, text) == nil {
			text = fmt.Sprintf("%+v", effect)
		}
		fmt.Fprintf(sum, "%q=%q\n", v.Setting.Name, text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
