package console

import (
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	// repeatEvery is how often a summary is printed though nothing has changed.
	repeatEvery = 10 * time.Minute
	// mostChanges is how many summaries are printed when things change again and again, enough for a start; after them one a changeEvery.
	mostChanges = 20
	changeEvery = time.Minute
	// listed is how many programs, or lines of a log, are printed.
	listed = 20
)

// line is a terminal that shows lines one after the other.
type line struct {
	printed time.Time
	digest  string
	changes *rate.Limiter
	// before is the menu that was shown.
	before menu
}

func newLine() *line { return &line{changes: rate.NewLimiter(rate.Every(changeEvery), mostChanges)} }

func (l *line) show(at scene, asked bool) []byte {
	return []byte(l.text(at, asked, time.Now()))
}

// text is what is printed: a summary when something important has changed, each repeatEvery, and when it is asked for; else nothing. While
// somebody has asked for something else, that isn't disturbed.
func (l *line) text(at scene, asked bool, now time.Time) string {
	m := at.menu
	changed := m != l.before
	l.before = m
	switch {
	case m.mode != atHome && !changed:
		return ""
	case m.mode != atHome:
		return l.other(at)
	}
	is := digest(at.view)
	if !asked && !changed && now.Sub(l.printed) < repeatEvery && (is == l.digest || !l.changes.AllowN(now, 1)) {
		return ""
	}
	l.printed, l.digest = now, is
	return l.join(append(summary(at.view), "croft: keys: "+at.offer.homeKeys()))
}

// other is what is printed of a menu.
func (l *line) other(at scene) string {
	m := at.menu
	var lines []string
	switch {
	case m.mode == asking && m.typed != "":
		return "\r\x1b[K" + m.prompt(at.offer)
	case m.mode == asking:
		return "\n" + m.prompt(at.offer)
	case m.mode == choosing:
		lines = m.list(at.offer, listed)
	case m.mode == reading:
		for _, l := range at.logs[max(len(at.logs)-listed, 0):] {
			lines = append(lines, fit(plain(l), summaryWidth))
		}
	}
	return l.join(append(lines, m.prompt(at.offer)))
}

func (l *line) join(lines []string) string { return "\n" + strings.Join(lines, "\n") + "\n" }

func (l *line) bye() []byte { return []byte("\n") }

func (l *line) forget() { l.printed = time.Time{} }
