// Package cell formats values as cells of croftd's tables: sizes, times, shortened IDs, and users' text
// without terminal control characters.
package cell

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// YesNo formats a truth value.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Time formats a time in Unix nanoseconds; 0 is none.
func Time(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

// ID shortens an ID to the part by which people distinguish it.
func ID(id string) string {
	if len(id) > 8 {
		return id[:8] + "…"
	}
	return id
}

// Digest shortens a digest to the part by which people distinguish it.
func Digest(digest string) string {
	const most = len("sha256:") + 12
	if len(digest) > most {
		return digest[:most]
	}
	return digest
}

// Printable removes control characters from text: users' programs write arbitrary bytes.
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

// MiB formats a size in MiB.
func MiB(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// GiB formats a size in GiB.
func GiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// Some joins the first few of a list.
func Some(all []string) string {
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}
