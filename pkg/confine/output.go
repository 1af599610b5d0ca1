package confine

import (
	"bytes"
	"strings"
	"unicode"
)

// The limits of a process's output: bytes kept, characters shown.
const (
	// mostKept is how much of a process's output is kept, in bytes.
	mostKept = 4 << 10
	// mostShown is how much of it is shown, in characters.
	mostShown = 300
)

// Output keeps the first 4 KiB of a process's output, which may be anything.
type Output struct{ text bytes.Buffer }

// Write implements io.Writer. It accepts everything.
func (o *Output) Write(b []byte) (int, error) {
	if left := mostKept - o.text.Len(); left > 0 {
		o.text.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

// String is the kept output.
func (o *Output) String() string { return o.text.String() }

// Printable is at most 300 characters of an untrusted text, on one line.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if r := []rune(text); len(r) > mostShown {
		text = string(r[:mostShown]) + "…"
	}
	return text
}
