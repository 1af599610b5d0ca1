package lifetime

import (
	"strings"
	"time"
)

// LastSeen says when a node was heard of last; updated is in seconds since 1970.
func LastSeen(updated int64, now time.Time) string {
	if updated == 0 {
		return "never seen"
	}
	return "last seen " + Text(max(0, now.Sub(time.Unix(updated, 0)))) + " ago"
}

// Ago is LastSeen for a table's column of that name: "5m ago", "never".
func Ago(updated int64, now time.Time) string {
	return strings.TrimSuffix(strings.TrimPrefix(LastSeen(updated, now), "last seen "), " seen")
}
