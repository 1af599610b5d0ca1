package scrub

import (
	"regexp"
	"strings"

	"github.com/blinklabs-io/go-bip39"
)

// assignment matches a name and its separator from the value, in text: password=x,
// "token": "x", \"seed\":\"x\", private key: x.
var assignment = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]{0,63}(?: [Kk]ey)?)([\\"']*\s*[:=]\s*)`)

// named masks values under names of secrets.
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

// manyWords reports whether values of that name have several words.
func manyWords(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "authorization") || strings.Contains(name, "cookie") || strings.Contains(name, "mnemonic")
}

// lineLength is the length of s's first line.
func lineLength(s string) int {
	if end := strings.IndexByte(s, '\n'); end >= 0 {
		return end
	}
	return len(s)
}

// valueLength is the length of the value that s begins with. A quoted value ends at
// its closing quote, or at the end of s if that is missing. An object or a list is
// taken to reach to the end of s: a mistake about its end could reveal a secret.
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

// bareLength is the length of the unquoted value that s begins with.
func bareLength(s string) int {
	if end := strings.IndexAny(s, " \t\r\n,;\"'`)]}"); end >= 0 {
		return end
	}
	return len(s)
}

// quotedLength is the length of the rest of a quoted value, with its closing quote,
// which has as many backslashes before it as the opening one, or fewer.
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

// mnemonic is how many consecutive words of the BIP-39 list are taken for a seed:
// prose has no such run, since its short words aren't in the list.
const mnemonic = 12

var word = regexp.MustCompile(`[A-Za-z]+`)

// words masks text that could be a seed written in words.
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
