package clock

import (
	"fmt"
	"time"
)

// The bounds of trust.
const (
	// MaxJump is how far the wall clock may move against the monotonic one.
	MaxJump = 10 * time.Minute
	// Holdover is how long a clock keeps level Remove after its support is gone: NTP,
	// or the answers of an explorer that is a trusted clock. A machine's oscillator is
	// off by at most 100 parts in a million, nine seconds in this time.
	Holdover = 24 * time.Hour
)

// reading is one reading of the machine's clocks.
type reading struct {
	wall   time.Time
	boot   time.Duration
	synced bool
}

// zero is the time of the machine's boot by the reading's wall clock: it stays
// the same for as long as the wall clock doesn't jump.
func (r reading) zero() time.Time { return r.wall.Add(-r.boot) }

// state is the trust in the clock. Its methods are pure: they return the next
// state. Times are kept as zeros, the time at which the machine booted: the time
// since boot is added on request.
type state struct {
	source Source
	// zero is the time of the machine's boot by the trusted time.
	zero time.Time
	// anchor is the zero of the explorer's word when it was first believed; its
	// later answers must agree with it.
	anchor time.Time
	// confirmed is the last boot time at which the source was known to be good for
	// level Remove.
	confirmed time.Duration
	// floor is the earliest possible time of the machine's boot: its last zero of
	// level Remove. Zero when none is known.
	floor time.Time
	// why is the reason for distrust while nothing vouches for the clock.
	why string
	// word is the explorer's answers so far.
	word word
	// trusting is whether the operator has named the explorer as a trusted clock.
	trusting bool
}

// see applies a reading of the machine's clocks.
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

// hear applies an answer of the explorer: its clock when the machine's read r. It
// moves neither a clock that NTP keeps nor one that was plausible at the start,
// unless the explorer is a trusted clock: then it is better than the latter.
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
		// Its word has to be given anew from now on, so earlier answers don't count.
		s = s.mistrust("the explorer says %s, and what it said when it was first believed makes that %s", explorer, s.anchor.Add(r.boot))
		s.word = newWord(said, r.boot)
		return s
	}
	return s.believe(said, r)
}

// believe follows the explorer's word: one believed already, or one given just now.
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

// mistrust forgets the explorer's word, and ends the trust based on it.
func (s state) mistrust(text string, said, other time.Time) state {
	s.word = word{}
	if !s.source.spoken() {
		return s
	}
	s.source = Nothing
	return s.doubt(text, said, other)
}

// earliest is the earliest possible time, within the allowed difference between
// clocks that agree; the zero time when nothing is known.
func (s state) earliest(r reading) time.Time {
	if s.floor.IsZero() {
		return time.Time{}
	}
	return s.floor.Add(r.boot - Agreement)
}

// now is the time: the explorer's where its word is the source of trust, otherwise
// the wall clock's.
func (s state) now(r reading) time.Time {
	if s.source.spoken() {
		return s.zero.Add(r.boot)
	}
	return r.wall
}

// lasting is the time to record. It is the time with which trust began where
// restarts would otherwise let the time walk: by the allowed difference between
// clocks that agree, at each start of the agent.
func (s state) lasting(r reading) time.Time {
	switch {
	case s.source.spoken():
		return s.anchor.Add(r.boot)
	case s.source == NTP:
		return s.zero.Add(r.boot)
	}
	return r.wall
}

// mark is the mark to record after last. A source outside the machine may lower
// the recorded time; the machine's own clock may not.
func (s state) mark(last Mark, r reading, up Uptime) Mark {
	m := last
	m.Uptime = up
	if !s.floor.IsZero() {
		m.Floor = s.floor.Add(r.boot).UTC()
	}
	if s.source == Nothing && last.Source.spoken() {
		m.BootID = "" // its word was taken back: a restart doesn't continue from it
	}
	at := s.lasting(r).UTC()
	if s.source == Nothing || s.source == Start && at.Before(last.Time) {
		return m
	}
	m.Time, m.Boot, m.BootID, m.Source, m.Confirmed = at, r.boot, up.BootID, s.source, s.confirmed
	return m
}
