package clock

import (
	"fmt"
	"time"
)

// What trust is made of.
const (
	// MaxJump is how far the wall clock may move against the monotonic one.
	MaxJump = 10 * time.Minute
	// Agreement is how close two clocks are that agree.
	Agreement = 5 * time.Minute
	// Answers is how many answers of the explorer make its word, Span how long
	// they must be apart, from the first to the last.
	Answers = 3
	Span    = time.Minute
	// Absence is how long a machine may have been off before its clock needs
	// a second opinion.
	Absence = 7 * 24 * time.Hour
	// Patience is how long the explorer's word must have stood before data is
	// removed by it alone.
	Patience = 7 * 24 * time.Hour
)

// Source is what a trusted time is from.
type Source string

// The sources of trust, the weakest first.
const (
	// Nothing vouches for the clock: it is not trusted.
	Nothing Source = ""
	// Explorer is the word of the explorer, and nothing else.
	Explorer Source = "explorer"
	// Start is a clock that was plausible when the machine or the agent
	// started, and hasn't jumped since.
	Start Source = "start"
	// NTP is a kernel clock that something keeps right.
	NTP Source = "ntp"
)

// reading is one look at the machine's clocks.
type reading struct {
	wall   time.Time
	boot   time.Duration
	synced bool
}

// zero is when the machine booted by the wall clock of the reading: it stays
// the same for as long as the wall clock doesn't jump.
func (r reading) zero() time.Time { return r.wall.Add(-r.boot) }

// past is what is known at the start.
type past struct {
	build  time.Time
	last   Mark
	bootID string
}

// state is how far the clock is trusted. Its methods are pure: they return the next state.
type state struct {
	source Source
	// zero is when the machine booted by the trusted time; since is the boot
	// time at which source took over.
	zero  time.Time
	since time.Duration
	// why says, while nothing vouches for the clock, what is wrong with it.
	why string
	// word is what the explorer has said so far.
	word word
}

// word is the explorer's answers that agree with each other.
type word struct {
	count       int
	first, last time.Duration
	// low and high are the earliest and latest zero that they say, newest the last one's.
	low, high, newest time.Time
}

// begin decides at the start. A clock that is behind what was known to be past
// is wrong. One that is far ahead may be: only within the same boot can that be told.
func begin(p past, r reading) state {
	switch {
	case r.synced:
		return state{}.see(r)
	case r.wall.Before(p.build):
		return distrusted("the clock says %s, before this program was built (%s)", r.wall, p.build)
	case p.last.Time.IsZero():
		return state{source: Start, zero: r.zero(), since: r.boot}
	case p.last.BootID == p.bootID && p.bootID != "":
		zero := p.last.Time.Add(-p.last.Boot)
		return state{source: Start, zero: zero, since: r.boot}.see(r)
	case r.wall.Before(p.last.Time):
		return distrusted("the clock says %s, before the last time that was trusted (%s)", r.wall, p.last.Time)
	case r.wall.Sub(p.last.Time) > Absence:
		return distrusted("the clock says %s, more than a week after the last time that was trusted (%s)", r.wall, p.last.Time)
	}
	return state{source: Start, zero: r.zero(), since: r.boot}
}

func distrusted(text string, wall, other time.Time) state {
	return state{why: fmt.Sprintf(text, wall.UTC().Format(time.RFC3339), other.UTC().Format(time.RFC3339))}
}

// see takes in one look at the machine's clocks.
func (s state) see(r reading) state {
	if r.synced {
		if s.source != NTP {
			s.since = r.boot
		}
		s.source, s.zero, s.why = NTP, r.zero(), ""
		return s
	}
	if s.source != Start && s.source != NTP {
		return s
	}
	if jump := r.zero().Sub(s.zero); jump.Abs() > MaxJump {
		s.source = Nothing
		s.why = fmt.Sprintf("the clock jumped by %s, to %s", jump.Round(time.Second), r.wall.UTC().Format(time.RFC3339))
	}
	return s
}

// hear takes in an answer of the explorer: its clock, when the machine's read r.
func (s state) hear(explorer time.Time, r reading) state {
	s = s.see(r)
	said := explorer.Add(-r.boot)
	s.word = s.word.add(said, r.boot)
	if s.source == Start || s.source == NTP {
		return s
	}
	if s.source == Explorer && said.Sub(s.zero).Abs() > Agreement {
		s.source = Nothing
		s.why = "the explorer has changed its mind about the time"
	}
	if !s.word.given() {
		return s
	}
	if s.source == Nothing {
		s.since = r.boot
	}
	s.source, s.zero, s.why = Explorer, s.word.newest, ""
	return s
}

func (w word) add(said time.Time, at time.Duration) word {
	low, high := w.low, w.high
	if w.count > 0 && said.Before(low) {
		low = said
	}
	if w.count > 0 && said.After(high) {
		high = said
	}
	if w.count == 0 || high.Sub(low) > Agreement || at-w.last > time.Hour {
		return word{count: 1, first: at, last: at, low: said, high: said, newest: said}
	}
	return word{count: w.count + 1, first: w.first, last: at, low: low, high: high, newest: said}
}

// given reports whether the answers are enough to be believed.
func (w word) given() bool { return w.count >= Answers && w.last-w.first >= Span }

// now is the time, and whether it is trusted. The explorer's word stands for
// itself; otherwise it is the wall clock's.
func (s state) now(r reading) (time.Time, bool) {
	if s.source == Explorer {
		return s.zero.Add(r.boot), true
	}
	return r.wall, s.source != Nothing
}

// removable reports whether the time is good enough to remove data by. A clock
// that was only plausible at the start isn't while the explorer contradicts it.
func (s state) removable(r reading) bool {
	switch s.source {
	case NTP:
		return true
	case Start:
		return !s.word.given() || s.word.newest.Sub(r.zero()).Abs() <= Agreement
	case Explorer:
		return r.boot-s.since >= Patience
	}
	return false
}
