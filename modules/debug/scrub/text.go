package scrub

import (
	"regexp"
	"strings"

	"github.com/tyler-smith/go-bip39"
)

// assignment is a name and what separates it from its value, in text: password=x,
// "token": "x", \"seed\":\"x\", private key: x.
var assignment = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]{0,63}(?: [Kk]ey)?)([\\"']*\s*[:=]\s*)`)

// named hides the values of names of secrets.
func named(s string) string {
	var out strings.Builder
	for {
		m := assignment.FindStringSubmatchIndex(s)
		if m == nil {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:m[1]])
		name := s[m[2]:m[3]]
		s = s[m[1]:]
		if !secretName(name) {
			continue
		}
		n := valueLength(s)
		if manyWords(name) {
			n = lineLength(s)
		}
		if n > 0 {
			out.WriteString(Mask)
			s = s[n:]
		}
	}
}

// manyWords reports whether a value of that name is more than one word.
func manyWords(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "authorization") || strings.Contains(name, "cookie") || strings.Contains(name, "mnemonic")
}

// lineLength is how long the first line of s is.
func lineLength(s string) int {
	if end := strings.IndexByte(s, '\n'); end >= 0 {
		return end
	}
	return len(s)
}

// valueLength is how much of s, which begins with a value, belongs to it. One
// in quotes ends with them, or with the text when they are missing; one that is
// an object or a list ends with the text: where it ends isn't worth a mistake.
func valueLength(s string) int {
	if rest, hidden := strings.CutPrefix(s, Mask); hidden {
		return len(Mask) + bareLength(rest)
	}
	quote := strings.TrimLeft(s, `\`)
	slashes := len(s) - len(quote)
	if quote == "" {
		return 0
	}
	switch quote[0] {
	case '{', '[':
		return len(s)
	case '"', '\'', '`':
		return slashes + 1 + quotedLength(quote[1:], quote[0], slashes)
	}
	return bareLength(s)
}

// bareLength is how much of s belongs to a value without quotes.
func bareLength(s string) int {
	if end := strings.IndexAny(s, " \t\r\n,;\"'`)]}"); end >= 0 {
		return end
	}
	return len(s)
}

// quotedLength is how much of s belongs to a text in quotes that stand behind
// as many backslashes, with the closing one.
func quotedLength(s string, quote byte, slashes int) int {
	behind := 0
	for i := range len(s) {
		switch {
		case s[i] == '\\':
			behind++
			continue
		case s[i] == quote && behind <= slashes && (slashes > 0 || behind == 0):
			return i + 1
		}
		behind = 0
	}
	return len(s)
}

// mnemonic is how many words of the list in a row are taken for a seed: prose
// doesn't have them, its short words aren't in the list.
const mnemonic = 12

var word = regexp.MustCompile(`[A-Za-z]+`)

// words hides what could be a seed written in words.
func words(s string) string {
	found := word.FindAllStringIndex(s, -1)
	if len(found) < mnemonic {
		return s
	}
	var out strings.Builder
	done, first := 0, 0
	hide := func(end int) {
		if end-first >= mnemonic {
			out.WriteString(s[done:found[first][0]])
			out.WriteString(Mask)
			done = found[end-1][1]
		}
	}
	for i, at := range found {
		if _, listed := bip39.GetWordIndex(strings.ToLower(s[at[0]:at[1]])); !listed {
			hide(i)
			first = i + 1
		}
	}
	hide(len(found))
	out.WriteString(s[done:])
	return out.String()
}
