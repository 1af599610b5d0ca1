// Package scrub removes secrets from log lines before they leave the node. It
// decides on text alone and keeps no state. It is the last line of defence:
// croft's code logs no secret knowingly.
package scrub

import (
	"regexp"
	"strings"
)

// Mask replaces a secret.
const Mask = "[secret]"

// Line returns a log line with anything that looks like a secret masked. A line
// that is a JSON object stays one: values under names of secrets are masked, and
// all strings in it are scrubbed as lines of their own.
func Line(line string) string {
	if clean, ok := object(line); ok {
		return clean
	}
	return text(line)
}

// rule replaces the matches of shape.
type rule struct {
	shape   *regexp.Regexp
	replace string
}

// rules apply to text, in this order.
var rules = []rule{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Mask},
	// A sealed box has at least 48 bytes; hashes and public keys are shorter.
	{regexp.MustCompile(`[0-9A-Fa-f]{96,}`), Mask},
	// A JSON Web Token, known by its encoded header.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Mask},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{8,}`), "${1}${2}" + Mask},
}

func text(s string) string {
	for _, r := range rules {
		s = r.shape.ReplaceAllString(s, r.replace)
	}
	return words(named(users(s)))
}

// maxURL is how many bytes of a URL are examined.
const maxURL = 4096

// users masks the user and password in URLs, also a password with characters
// that URLs require to be escaped.
func users(s string) string {
	var out strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		i += len("://")
		out.WriteString(s[:i])
		s = s[i:]
		run := s[:min(len(s), maxURL)]
		if end := strings.IndexAny(run, " \t\r\n\"'`<>\\"); end >= 0 {
			run = run[:end]
		}
		host := run
		if end := strings.IndexAny(run, "/?#"); end >= 0 {
			host = run[:end]
		}
		if at := strings.LastIndexByte(run, '@'); at >= 0 && strings.ContainsAny(host, "@:") {
			out.WriteString(Mask)
			s = s[at:]
		}
	}
}
