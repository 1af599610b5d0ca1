package workload

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// minTime and maxTime bound the times whose nanoseconds since 1970 fit an int64
// (1677 to 2262). Beyond them time.Time.UnixNano wraps around, so that
// two times would have the same signed bytes: a signature would cover both.
func minTime() time.Time { return time.Unix(0, math.MinInt64).UTC() }

func maxTime() time.Time { return time.Unix(0, math.MaxInt64).UTC() }

func inRange(t time.Time) bool { return !t.Before(minTime()) && !t.After(maxTime()) }

// nanoseconds is t in its signed form.
func nanoseconds(path string, t time.Time) (int64, error) {
	if !inRange(t) {
		return 0, fielderror.New(path, t.UTC().Format(time.RFC3339Nano), "a time from %s to %s", minTime().Format(time.DateOnly), maxTime().Format(time.DateOnly))
	}
	return t.UnixNano(), nil
}

// readTime reads RFC 3339 with at most nine digits of a second, in the range of
// int64 nanoseconds since 1970: the signature covers these.
func readTime(to *time.Time, draft bool) strictjson.Field {
	return strictjson.Field{Read: func(path string, raw json.RawMessage) error {
		var text string
		if err := strictjson.String(&text).Read(path, raw); err != nil {
			return err
		}
		var t time.Time
		if err := t.UnmarshalText([]byte(text)); err != nil || tooFine(text) {
			return fielderror.New(path, text, "a time as RFC 3339 writes it, with at most 9 digits of a second")
		}
		if !inRange(t) && (!draft || !t.IsZero()) {
			return fielderror.New(path, text, "a time from %s to %s", minTime().Format(time.DateOnly), maxTime().Format(time.DateOnly))
		}
		*to = t.UTC()
		return nil
	}}
}

func tooFine(text string) bool {
	_, fraction, ok := strings.Cut(text, ".")
	return ok && strings.IndexFunc(fraction, func(c rune) bool { return c < '0' || c > '9' }) > 9
}
