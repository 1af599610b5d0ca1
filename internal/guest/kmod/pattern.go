package kmod

import "strings"

// match reports whether a text matches a pattern of modules.alias: * is any text, ? any character, [a-z] one of some,
// [!a-z] none of these. Slashes are nothing special, unlike in path.Match: DMI's texts have them in dates.
func match(pattern, text string) bool {
	// star is the place after the pattern's last *, from that of the text from which it is tried again.
	star, from := -1, 0
	p, t := 0, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, t
			continue
		}
		if width, ok := matchOne(pattern[p:], text[t]); ok {
			p += width
			t++
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, t = star, from
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne reports whether a character matches the beginning of a pattern, and how many bytes of the pattern that is.
func matchOne(pattern string, c byte) (width int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if set, ok := bracket(pattern); ok {
			return len(set) + 2, inSet(set, c)
		}
	}
	return 1, pattern[0] == c
}

// bracket is what stands between a pattern's first character, [, and the ] that ends it. A ] that comes first is one of
// the set.
func bracket(pattern string) (string, bool) {
	first := 1
	if len(pattern) > first && (pattern[first] == '!' || pattern[first] == '^') {
		first++
	}
	if len(pattern) <= first {
		return "", false
	}
	end := strings.IndexByte(pattern[first+1:], ']')
	if end < 0 {
		return "", false
	}
	return pattern[1 : first+1+end], true
}

// inSet reports whether a character is in what stands between brackets.
func inSet(set string, c byte) bool {
	not := set[0] == '!' || set[0] == '^'
	if not {
		set = set[1:]
	}
	for set != "" {
		if len(set) >= 3 && set[1] == '-' {
			if set[0] <= c && c <= set[2] {
				return !not
			}
			set = set[3:]
			continue
		}
		if set[0] == c {
			return !not
		}
		set = set[1:]
	}
	return not
}

// plain is a module's name or alias as it is compared: with underscores for hyphens, but for those between brackets.
func plain(name string) string {
	if !strings.Contains(name, "-") {
		return name
	}
	out, inside := []byte(name), false
	for i, c := range out {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '-' && !inside:
			out[i] = '_'
		}
	}
	return string(out)
}
