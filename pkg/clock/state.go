package clock

import (
	"fmt"
	"time"
)

// What trust is made of.
const (
	// MaxJump is how far the wall clock may move against the monotonic one.
	MaxJump = 10 * time.Minute
	// Holdover is how long a clock stays at level Remove after what kept it
	// there is gone: NTP, or the answers of an explorer that is a trusted clock.
	// A machine's oscillator is off by at most 100 parts in a million, nine
	// seconds in this time.
	Holdover = 24 * time.Hour
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

// state is how far the clock is trusted. Its methods are pure: they return the
// next state. Times are kept as zeros, the time at which the machine booted:
// the time since boot is added when they are asked for.
type state struct {
	source Source
	// zero is when the machine booted by the trusted time.
	zero time.Time
	// anchor is the zero that the explorer's word had when it was first
	// believed; what it says later must agree with it.
	anchor time.Time
	// confirmed is the boot time at which the source was last seen to be good
	// for level Remove.
	confirmed time.Duration
	// floor is when the machine booted at the earliest: its last zero of level
	// Remove. Zero when none is known.
	floor time.Time
	// why says, while nothing vouches for the clock, what is wrong with it.
	why string
	// word is what the explorer has said so far.
	word word
	// trusting says that the operator has named the explorer as a trusted clock.
	trusting bool
}

// see takes in one look at the machine's clocks.
func (s state) see(r reading) state {
	switch {
	case r.synced:
		s.source, s.zero, s.floor, s.confirmed, s.why = NTP, r.zero(), r.zero(), r.boot, ""
		return s
	case s.source == TrustedExplorer && r.boot-s.confirmed > Holdover:
		s.source = Explorer
	case s.source == NTP && r.boot-s.confirmed > Holdover:
		s.source = Start
	}
	if s.source == Nothing || s.source.spoken() {
		return s
	}
	if jump := r.zero().Sub(s.zero); jump.Abs() > MaxJump {
		s.source = Nothing
		s.why = fmt.Sprintf("the clock jumped by %s, to %s", jump.Round(time.Second), r.wall.UTC().Format(time.RFC3339))
	}
	return s
}

// hear takes in an answer of the explorer: its clock, when the machine's read
// r. It moves neither a clock that NTP keeps nor one that was plausible at the
// start, unless the explorer is a trusted clock: then it is better than the latter.
func (s state) hear(explorer time.Time, r reading) state {
	s = s.see(r)
	if explorer.Before(s.earliest(r)) && !s.trusting {
		return s.mistrust("the explorer says %s, and it is certainly later than %s", explorer, s.earliest(r))
	}
	said := explorer.Add(-r.boot)
	s.word = s.word.add(said, r.boot)
	if s.source == NTP || s.source == Start && !s.trusting {
		return s
	}
	if s.source.spoken() && said.Sub(s.anchor).Abs() > Agreement {
		// Whatever it says from now on has to be given anew, so what was said
		// before doesn't count.
		s = s.mistrust("the explorer says %s, and what it said when it was first believed makes that %s", explorer, s.anchor.Add(r.boot))
		s.word = newWord(said, r.boot)
		return s
	}
	return s.believe(said, r)
}

// believe follows the explorer's word: one that stands already, or one that was given just now.
func (s state) believe(said time.Time, r reading) state {
	given := s.word.given()
	switch {
	case s.source.spoken():
		s.zero = said
	case given:
		s.source, s.zero, s.anchor, s.why = Explorer, said, said, ""
	}
	if s.trusting && given {
		s.source, s.floor, s.confirmed = TrustedExplorer, said, r.boot
	}
	return s
}

// mistrust forgets the explorer's word, and ends the trust that was in it.
func (s state) mistrust(text string, said, other time.Time) state {
	s.word = word{}
	if !s.source.spoken() {
		return s
	}
	s.source = Nothing
	return s.doubt(text, said, other)
}

// earliest is the time that it is at least, as far as clocks that agree may be
// apart; the zero time when nothing is known.
func (s state) earliest(r reading) time.Time {
	if s.floor.IsZero() {
		return time.Time{}
	}
	return s.floor.Add(r.boot - Agreement)
}

// now is the time: the explorer's where its word is what is trusted, otherwise
// the wall clock's.
func (s state) now(r reading) time.Time {
	if s.source.spoken() {
		return s.zero.Add(r.boot)
	}
	return r.wall
}

// lasting is the time to record. It is what trust began with where a restart
// would otherwise let the time walk: by as much as clocks that agree may be
// apart, each time that the agent starts.
func (s state) lasting(r reading) time.Time {
	switch {
	case s.source.spoken():
		return s.anchor.Add(r.boot)
	case s.source == NTP:
		return s.zero.Add(r.boot)
	}
	return r.wall
}

// mark is what to record, after last. A source outside the machine may lower
// the time that was recorded; the machine's own clock may not.
func (s state) mark(last Mark, r reading, up Uptime) Mark {
	m := last
	m.Uptime = up
	if !s.floor.IsZero() {
		m.Floor = s.floor.Add(r.boot).UTC()
	}
	if s.source == Nothing && last.Source.spoken() {
		m.BootID = "" // its word was taken back: a restart doesn't go on from it
	}
	at := s.lasting(r).UTC()
	if s.source == Nothing || s.source == Start && at.Before(last.Time) {
		return m
	}
	m.Time, m.Boot, m.BootID, m.Source, m.Confirmed = at, r.boot, up.BootID, s.source, s.confirmed
	return m
}
