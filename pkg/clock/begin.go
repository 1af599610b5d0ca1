package clock

import (
	"fmt"
	"time"
)

// Absence is how long a machine may have been off before its clock needs a
// second opinion.
const Absence = 7 * 24 * time.Hour

// past is the knowledge about the time at the start.
type past struct {
	build  time.Time
	last   Mark
	bootID string
	// before is the node's uptime up to this boot.
	before time.Duration
	// trusting is whether the operator has named the explorer as a trusted clock.
	trusting bool
}

// floor is a time that had certainly passed when this boot began, zero when none is known.
func (p past) floor() time.Time {
	if p.last.Floor.IsZero() {
		return time.Time{}
	}
	return p.last.Floor.Add(p.before - p.last.Uptime.Total)
}

// begin decides at the start. A clock behind a time known to be past is wrong. One
// that is far ahead may be: only within the same boot can that be decided. A time
// known from the explorer alone stays at that: within the boot the explorer's word
// still holds, from its first acceptance and whatever the wall clock says; after a
// reboot it has to be given again, for it can't make a machine's clock plausible.
func begin(p past, r reading) state {
	s := state{floor: p.floor(), trusting: p.trusting}
	last := p.last
	last.Source = p.source()
	switch {
	case r.synced:
		return s.see(r)
	case last.sameBoot(p.bootID) && last.Source.spoken():
		return s.resume(last).see(r)
	case r.wall.Before(p.build):
		return s.doubt("the clock says %s, before this program was built (%s)", r.wall, p.build)
	case r.wall.Before(s.earliest(r)):
		return s.doubt("the clock says %s, and it is certainly later than %s", r.wall, s.earliest(r))
	case last.Time.IsZero():
		return s.own(r)
	case last.sameBoot(p.bootID):
		return s.resume(last).see(r)
	case r.wall.Before(last.Time):
		return s.doubt("the clock says %s, before the last time that was trusted (%s)", r.wall, last.Time)
	case r.wall.Sub(last.Time) > Absence:
		return s.doubt("the clock says %s, more than a week after the last time that was trusted (%s)", r.wall, last.Time)
	case last.Source == Explorer:
		return s.doubt("the clock says %s, and only the explorer said what time it was before the reboot (%s)", r.wall, last.Time)
	}
	return s.own(r)
}

// source is the last mark's source of time. A mark from before sources were
// recorded may be the explorer's word: it can tell that the clock went backwards or
// jumped, and vouches for nothing beyond that. The word of an explorer that isn't a
// trusted clock any more counts as a plain explorer's word.
func (p past) source() Source {
	switch {
	case p.last.Source.level() == None:
		return Start
	case p.last.Source == TrustedExplorer && !p.trusting:
		return Explorer
	}
	return p.last.Source
}

// own trusts the machine's own clock, as it is now.
func (s state) own(r reading) state {
	s.source, s.zero = Start, r.zero()
	return s
}

// resume continues from a mark of the same boot.
func (s state) resume(m Mark) state {
	s.source, s.zero, s.confirmed = m.Source, m.Time.Add(-m.Boot), m.Confirmed
	s.anchor = s.zero
	return s
}

func (s state) doubt(text string, wall, other time.Time) state {
	s.why = fmt.Sprintf(text, wall.UTC().Format(time.RFC3339), other.UTC().Format(time.RFC3339))
	return s
}
