// Package cmdline reads the kernel's command line.
package cmdline

import (
	"os"
	"strings"

	"github.com/pkg/errors"
)

// File is where the kernel shows its command line.
const File = "/proc/cmdline"

// Word is a parameter: NAME, or NAME=VALUE.
type Word struct{ Name, Value string }

// Line is a command line.
type Line []Word

// Read reads the kernel's command line.
func Read() (Line, error) {
	raw, err := os.ReadFile(File)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the kernel's command line")
	}
	return Parse(string(raw)), nil
}

// Parse splits a command line as the kernel does (lib/cmdline.c, next_arg): at white space outside of double quotes, which
// are dropped around a word or around its value.
func Parse(text string) Line {
	var out Line
	var word strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			name, value, _ := strings.Cut(word.String(), "=")
			out = append(out, Word{name, value})
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case !quoted && strings.ContainsRune(" \t\r\n\v\f\x00", r):
			end()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return out
}

// Get is the value of the last parameter of that name; ok tells whether there is one.
func (l Line) Get(name string) (value string, ok bool) {
	for _, w := range l {
		if w.Name == name {
			value, ok = w.Value, true
		}
	}
	return value, ok
}

// Has reports whether there is a parameter of that name.
func (l Line) Has(name string) bool {
	_, ok := l.Get(name)
	return ok
}

// Below are the parameters whose names begin with the prefix, which is taken away, in order.
func (l Line) Below(prefix string) Line {
	var out Line
	for _, w := range l {
		if rest, ok := strings.CutPrefix(w.Name, prefix); ok && rest != "" {
			out = append(out, Word{rest, w.Value})
		}
	}
	return out
}
