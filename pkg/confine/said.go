package confine

import (
	"bytes"
	"strings"
	"unicode"
)

// What is kept of what a process says: bytes of all, characters that are shown.
const (
	mostSaid  = 4 << 10
	mostShown = 300
)

// Said keeps the first 4 KiB that a process says, which may be anything.
type Said struct{ text bytes.Buffer }

// Write implements io.Writer. It takes everything.
func (s *Said) Write(b []byte) (int, error) {
	if left := mostSaid - s.text.Len(); left > 0 {
		s.text.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

// String is what was kept.
func (s *Said) String() string { return s.text.String() }

// Printable is at most 300 characters of a text that somebody else may have made, on one line.
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
