// Package limit divides scarce resources between those who ask for them, so that
// none of them can take all: so much for each, and so much for all together,
// since keys and addresses cost nothing.
//
// Each limit of croft is a package-level variable of type Limit, and a row of
// the table in docs/security.md; a test in the module's root holds the two
// together.
package limit

import (
	"fmt"
	"strings"
)

// Limit is the amount of a resource for each user of it, and for all together.
type Limit struct {
	// Name is the limit's name in the table and in /metrics: words in lower case,
	// joined by hyphens.
	Name string
	// Per is the kind of key that Each counts for, such as "user", "source" (see Source) or
	// "container".
	Per string
	// Each and Total are the amounts for one and for all, in Unit. 0 is no limit.
	Each, Total int64
	// Kept is the part of Total reserved for known keys; see
	// Shares.TakeKnown.
	Kept int64
	Unit Unit
}

// Unit is what a limit counts.
type Unit int

// The units: Slots are counted things, Bytes are shown in KiB, MiB or GiB.
const (
	Slots Unit = iota
	Bytes
)

// String is the limit as the table of docs/security.md shows it, such as
// "64 a user, 512 in total, 32 of them kept".
func (l Limit) String() string {
	var parts []string
	if l.Each > 0 {
		parts = append(parts, fmt.Sprintf("%s a %s", l.Unit.format(l.Each), l.Per))
	}
	if l.Total > 0 {
		parts = append(parts, l.Unit.format(l.Total)+" in total")
	}
	if l.Kept > 0 {
		parts = append(parts, l.Unit.format(l.Kept)+" of them kept")
	}
	return strings.Join(parts, ", ")
}

func (u Unit) format(n int64) string {
	if u == Slots {
		return fmt.Sprint(n)
	}
	for _, by := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= by.size && n%by.size == 0 {
			return fmt.Sprintf("%d %s", n/by.size, by.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
