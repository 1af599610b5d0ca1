// Package cell writes values as the cells of croftd's tables: sizes, times, shortened IDs, and
// text of users without what a terminal would obey.
package cell

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// YesNo is a truth value.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Time is a time in Unix nanoseconds; 0 is none.
func Time(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

// ID is the part of an ID by which people tell IDs apart.
func ID(id string) string {
	if len(id) > 8 {
		return id[:8] + "…"
	}
	return id
}

// Digest is the part of a digest by which people tell digests apart.
func Digest(digest string) string {
	const most = len("sha256:") + 12
	if len(digest) > most {
		return digest[:most]
	}
	return digest
}

// Printable is text without control characters: users' programs write whatever they like.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case !unicode.IsPrint(r):
			return '.'
		}
		return r
	}, text)
}

// MiB is a size in MiB.
func MiB(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// GiB is a size in GiB.
func GiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// Some is a list of the first few of many.
func Some(all []string) string {
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}
