package workload

import (
	"math"
	"time"
)

// minTime and maxTime bound the times whose nanoseconds since 1970 an int64
// holds (1677 to 2262). Beyond them time.Time.UnixNano wraps around, so that
// two times would have the same signed bytes: a signature would cover both.
func minTime() time.Time { return time.Unix(0, math.MinInt64).UTC() }

func maxTime() time.Time { return time.Unix(0, math.MaxInt64).UTC() }

func inRange(t time.Time) bool { return !t.Before(minTime()) && !t.After(maxTime()) }

// nanoseconds is t as it is signed.
func nanoseconds(path string, t time.Time) (int64, error) {
	if !inRange(t) {
		return 0, refuse(path, t.UTC().Format(time.RFC3339Nano), "a time from %s to %s", minTime().Format(time.DateOnly), maxTime().Format(time.DateOnly))
	}
	return t.UnixNano(), nil
}
