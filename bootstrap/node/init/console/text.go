package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
)

// mostText bounds a text from outside, in bytes, before it is fitted to a line.
const mostText = 600

// cut ends a text that was cut.
const cut = "..."

// plain is a text as one line of printable ASCII.
func plain(s string) string {
	s = strings.ReplaceAll(clip.Line(clip.Text(s, mostText), mostText+len(cut)), "…", cut)
	return strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r <= '~':
			return r
		case r == '’' || r == '‘':
			return '\''
		}
		return '?'
	}, strings.TrimSpace(s))
}

// fit cuts a line of ASCII to a width.
func fit(s string, width int) string {
	switch {
	case len(s) <= width:
		return s
	case width <= len(cut):
		return s[:max(width, 0)]
	}
	return s[:width-len(cut)] + cut
}

// spread puts one text at the left end of a line and one at its right end. The right one stays whole where it can.
func spread(left, right string, width int) string {
	right = fit(right, width)
	left = fit(left, width-len(right)-1)
	return left + strings.Repeat(" ", max(width-len(left)-len(right), 0)) + right
}

// wrap breaks a text between words into lines of a width, at most most of them; the last is cut where it isn't the end.
func wrap(s string, width, most int) []string {
	var out []string
	for len(s) > width && len(out) < most-1 {
		at := strings.LastIndexByte(s[:width+1], ' ')
		if at < width/2 {
			at = width
		}
		out = append(out, strings.TrimRight(s[:at], " "))
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(out, fit(s, width))
}

// flow puts short texts into as few lines of a width as they need.
func flow(parts []string, width int) []string {
	var out []string
	for _, p := range parts {
		if n := len(out) - 1; n >= 0 && len(out[n])+2+len(p) <= width {
			out[n] += "  " + p
		} else {
			out = append(out, fit(p, width))
		}
	}
	return out
}

// size is a number of bytes for people.
func size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, i := float64(n), 0
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// length is a duration for people. It changes at most once a minute.
func length(d time.Duration) string {
	minutes := int64(max(d, 0) / time.Minute)
	switch days, hours := minutes/(24*60), minutes/60%24; {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes%60)
	case minutes > 0:
		return fmt.Sprintf("%d min", minutes)
	}
	return "less than 1 min"
}

// count is a number with its noun.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
