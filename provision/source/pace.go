package source

import (
	"math/rand/v2"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

const (
	// soon is the pause between two looks at told IDs; while they find no difference it
	// doubles up to mostRest.
	soon     = 50 * time.Millisecond
	mostRest = 2 * time.Second
	// soonAll is the pause between two looks at everything for gaps in what was told; while
	// gaps follow one another it doubles, up to the usual interval.
	soonAll = time.Second
	// calmAfter is how long nothing may have been told for the pauses to begin anew.
	calmAfter = 10 * time.Second
	// share is how many times as long as a look took nothing is looked at: it bounds the
	// part of the time that goes into looks, however much is told.
	share = 4
)

// pace says when a type may be looked at, and has to be. However much is told, and
// whatever it is, the number of looks in a time is bounded.
type pace struct {
	// from is the end of the last look at everything, part the part of the interval after
	// which the next one is: by chance, so that the types, and a fleet, don't ask all at once.
	from time.Time
	part float64
	// Told IDs are looked at no sooner than at rest, everything for a gap no sooner than
	// at restAll; row and rowAll count the looks in a row that had no effect on that.
	rest, restAll time.Time
	row, rowAll   int
}

// began notes the start.
func (p *pace) began(now time.Time) { p.lookedAtAll(now, 0) }

// next is the time of the next look, when some IDs or everything wait for one.
func (p *pace) next(interval time.Duration, some, all bool) time.Time {
	at := backoff.EndTogether(p.from, time.Duration(p.part*float64(interval)))
	if some && p.rest.Before(at) {
		at = p.rest
	}
	if all && p.restAll.Before(at) {
		at = p.restAll
	}
	return at
}

// due reports whether it is time for a look at everything.
func (p *pace) due(now time.Time, interval time.Duration) bool {
	return !now.Before(p.next(interval, false, false))
}

// lookedAtAll notes the end of a look at everything.
func (p *pace) lookedAtAll(now time.Time, failures int) {
	// Ending it together with other waits shortens the wait by a tenth on average: see backoff.EndTogether.
	p.from, p.part = now, 1+0.2*rand.Float64()
	if failures > 1 {
		p.part = 1 + rand.Float64()/2
	}
	p.rest = now
}

// lost notes the end of a look at everything that was for a gap; every is the usual interval.
func (p *pace) lost(now time.Time, took, every time.Duration) {
	p.rowAll = following(p.rowAll, now, p.restAll)
	p.restAll = now.Add(min(max(soonAll<<min(p.rowAll, 10), share*took), every))
}

// lookedAt notes the end of a look at told IDs.
func (p *pace) lookedAt(now time.Time, took time.Duration, differed bool) {
	p.row = following(p.row, now, p.rest)
	if differed {
		p.row = 0
	}
	p.rest = now.Add(min(max(soon<<min(p.row, 10), share*took), mostRest))
}

// failed notes a failed look at told IDs.
func (p *pace) failed(now time.Time, failures int, every time.Duration) {
	p.rest = now.Add(backoff.Backoff{Base: soonAll, Max: every}.Delay(failures))
}

// following is the next number of a row; the row begins anew after a calm time.
func following(row int, now, rest time.Time) int {
	if now.Sub(rest) > calmAfter {
		return 0
	}
	return row + 1
}
