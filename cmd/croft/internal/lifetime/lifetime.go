// Package lifetime reads and writes how long a reservation lasts, in the words
// that people use: days and weeks beside Go's units. It is pure.
package lifetime

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// The units that Go's durations don't have.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Parse reads "30d", "2w", "1d12h", "90m": whole numbers of w, d, h, m and s,
// larger units first, more than 0.
func Parse(text string) (time.Duration, error) {
	rest, total, last := text, time.Duration(0), time.Duration(math.MaxInt64)
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 || digits == len(rest) {
			return 0, form(text)
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		unit := unitOf(rest[digits])
		if err != nil || unit == 0 || unit >= last {
			return 0, form(text)
		}
		if n > int64((math.MaxInt64-total)/unit) {
			return 0, errors.Errorf("cannot read duration %q: it must be shorter than 292 years", text)
		}
		total, last, rest = total+time.Duration(n)*unit, unit, rest[digits+1:]
	}
	if total <= 0 {
		return 0, form(text)
	}
	return total, nil
}

func unitOf(c byte) time.Duration {
	switch c {
	case 'w':
		return week
	case 'd':
		return day
	case 'h':
		return time.Hour
	case 'm':
		return time.Minute
	case 's':
		return time.Second
	}
	return 0
}

func form(text string) error {
	return errors.Errorf("cannot read duration %q: it must be more than 0, as in 30d, 2w, 1d12h, 90m, 45s", text)
}

// Text is d rounded to at most two units, for people: "29d", "1d4h", "3h20m", "45s".
func Text(d time.Duration) string {
	if d < 0 {
		return "-" + Text(-d)
	}
	units := []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		finest := u.size
		if i+1 < len(units) && d < 10*u.size {
			finest = units[i+1].size
		}
		rounded := d.Round(finest)
		if rounded < u.size {
			continue
		}
		out := strconv.FormatInt(int64(rounded/u.size), 10) + u.name
		if below := rounded % u.size / finest; below > 0 {
			out += strconv.FormatInt(int64(below), 10) + units[i+1].name
		}
		return out
	}
	return "0s"
}

// ParseTime reads a moment: RFC 3339, or a day in UTC as in 2027-01-31.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.Errorf("cannot read time %q: it must be as in 2027-01-31 or 2027-01-31T15:04:05Z", text)
}
