package store

import (
	"strings"
	"unicode/utf8"
)

// maxTombText bounds the text that a tombstone keeps, in bytes of its file: what
// costs its sender nothing must cost the node little.
const maxTombText = 512

// shortened returns text cut to what maxTombText bytes of JSON hold.
func shortened(text string) string {
	const end = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text)*6 <= maxTombText {
		return text
	}
	size, cut := 0, 0
	for i, r := range text {
		size += sizeInJSON(r)
		if size > maxTombText {
			return strings.Clone(text[:cut]) + end
		}
		if size <= maxTombText-len(end) {
			cut = i + utf8.RuneLen(r)
		}
	}
	return text
}

// sizeInJSON is at least what encoding/json writes for r.
func sizeInJSON(r rune) int {
	switch {
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == 0x7f:
		return 6
	case r == '"', r == '\\':
		return 2
	}
	return utf8.RuneLen(r)
}
