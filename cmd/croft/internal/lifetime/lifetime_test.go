package lifetime_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute,
		"45s": 45 * time.Second, "1w1d1h1m1s": 8*24*time.Hour + time.Hour + time.Minute + time.Second,
		"15250w": 15250 * 7 * 24 * time.Hour,
	} {
		got, err := lifetime.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "0d", "0s", "-1d", "30", "d", "1.5h", "1h1d", "1d1d", "3y", "1 d", "30d ", "99999999999999999999d", "15251w", "9223372036854775807s", "1ms"} {
		got, err := lifetime.Parse(text)
		if err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
			continue
		}
		if !strings.HasPrefix(err.Error(), "cannot read duration") || !strings.Contains(err.Error(), "must be") {
			t.Errorf("Parse(%q): %q doesn't say what is allowed", text, err)
		}
	}
}

func TestParseNeverReturnsZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := lifetime.Parse(rapid.StringMatching(`([0-9]{1,20}[wdhms]){1,4}`).Draw(t, "text"))
		if err == nil && d <= 0 {
			t.Fatalf("a duration of %v", d)
		}
	})
}

func TestText(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "29d": 29*24*time.Hour + 11*time.Hour, "1d4h": 28 * time.Hour, "3h20m": 200 * time.Minute,
		"45s": 45 * time.Second, "0s": time.Millisecond, "-2h": -2 * time.Hour, "1m1s": 61 * time.Second, "1d": 24*time.Hour - time.Second, "31d": 31*24*time.Hour - time.Minute, "1h": 59*time.Minute + 59*time.Second,
	} {
		if got := lifetime.Text(d); got != want {
			t.Errorf("Text(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2027-01-31":                time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC),
		"2027-01-31T15:04:05Z":      time.Date(2027, 1, 31, 15, 4, 5, 0, time.UTC),
		"2027-01-31T15:04:05.5Z":    time.Date(2027, 1, 31, 15, 4, 5, 5e8, time.UTC),
		"2027-01-31T16:04:05+01:00": time.Date(2027, 1, 31, 15, 4, 5, 0, time.UTC),
	} {
		got, err := lifetime.ParseTime(text)
		if err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "31.1.2027", "2027-02-30"} {
		if got, err := lifetime.ParseTime(text); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", text, got)
		}
	}
}
