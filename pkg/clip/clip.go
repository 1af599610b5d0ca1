// Package clip shortens texts from others, so that they fit a log line, an
// error or a record. It owns nothing.
package clip

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark ends a text that was cut.
const mark = "…"

// Text returns s when it has at most most bytes; else its first most bytes, less
// the part of a character at the cut, and the mark "…" after them.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:boundary(s, most)] + mark
}

// Within is Text whose result has at most most bytes with the mark; most is at
// least the mark's 3 bytes.
func Within(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:boundary(s, most-len(mark))] + mark
}

// Line is Text of s as one line: a control character becomes a space, and a byte
// that isn't UTF-8 becomes "?".
func Line(s string, most int) string {
	return Text(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")), most)
}

// boundary is the start of the character that byte most of s belongs to. In a text
// that isn't UTF-8 it is at most a character's length before it.
func boundary(s string, most int) int {
	for cut := most; cut >= 0 && cut > most-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return cut
		}
	}
	return most
}
