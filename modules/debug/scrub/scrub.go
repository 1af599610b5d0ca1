// Package scrub takes secrets out of log lines before they leave the node. It
// decides on text alone and keeps nothing. It is the last net, not the first:
// nothing of croft logs a secret knowingly.
package scrub

import (
	"regexp"
	"strings"
)

// Mask stands where a secret was.
const Mask = "[secret]"

// Line returns a log line without what looks like a secret. A line that is a
// JSON object stays one: values under names of secrets go, and all texts in it
// are treated as lines are that aren't JSON.
func Line(line string) string {
	if clean, ok := object(line); ok {
		return clean
	}
	return text(line)
}

// rule replaces what matches.
type rule struct {
	shape   *regexp.Regexp
	replace string
}

// rules are for text, in this order.
var rules = []rule{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Mask},
	// A sealed box has at least 48 bytes; hashes and public keys are shorter.
	{regexp.MustCompile(`[0-9A-Fa-f]{96,}`), Mask},
	// A token that says of itself what it is.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Mask},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{8,}`), "${1}${2}" + Mask},
}

func text(s string) string {
	for _, r := range rules {
		s = r.shape.ReplaceAllString(s, r.replace)
	}
	return words(named(users(s)))
}

// maxURL is how much of a URL is looked at.
const maxURL = 4096

// users takes the user and password out of URLs, also where a password has
// characters that it must not have there.
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
