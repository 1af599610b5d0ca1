package lifecycle

import (
	"time"

	"github.com/croft-edge/croft/pkg/clock"
)

// Facts is what Next is told beside the record and the event.
type Facts struct {
	// Time is the present time, how far it can be trusted, and the node's uptime.
	Time clock.Reading
	Type TypeFacts
	// Name is how the record stands to the others of its name.
	Name Standing
	// InFlight is whether an effect of the record is in flight.
	InFlight bool
	// Older is whether it may have been here in a life of the store that was lost.
	Older bool
	// Returns is whether the node would take it in past the end that it knows, if it
	// didn't remember it: by a renewal that was kept from it, or by other dates where
	// these aren't signed.
	Returns bool
	// Crowded is whether as many refused reservations are remembered as may be.
	Crowded bool
	// Roomy is whether more tombstones of what was accepted may be remembered than
	// must be.
	Roomy  bool
	Limits Limits
}

// TypeFacts is what the record's type of workload is like on this node.
type TypeFacts struct {
	// HoldsData is whether taking one down loses what its user wrote; Stops
	// whether one can be stopped with all that it wrote kept; Prepares whether
	// something is fetched ahead of it.
	HoldsData bool
	Stops     bool
	Prepares  bool
	// Apart is whether each reservation of a name has a workload of its own, one of
	// which runs at a time, rather than all of them the one thing of that name. A
	// newer one is told ok once it has taken the place of the older one for good;
	// until then the older one is what the node has.
	Apart bool
}

// Limits are the waits that the table uses.
type Limits struct {
	// Grace is how long the data of an evicted workload is kept.
	Grace time.Duration
	// Look is how often a held workload is looked at.
	Look time.Duration
	// Backoff is how long to wait after that many failures in a row, from 1.
	Backoff func(failures int) time.Duration
	// TellAfter is how many attempts fail before the user hears of it.
	TellAfter int
	// Longest is how long past its end a workload is kept for a renewal that no
	// trusted time has judged.
	Longest time.Duration
}

// Standing is how a record stands to the other accepted ones of its name.
type Standing string

// The standings.
const (
	// Alone: it has no name, or is the newest of it and no older one stands.
	Alone Standing = "alone"
	// Newest: it is the newest of its name, and an older one is on the node.
	Newest Standing = "newest"
	// Awaited: a newer one was accepted and isn't on the node yet.
	Awaited Standing = "awaited"
	// Outdone: a newer one is on the node.
	Outdone Standing = "outdone"
	// Doomed: a newer one is leaving, and its end is the end of all.
	Doomed Standing = "doomed"
	// Gone: a newer one has ended, and no other stands: this one ends with it.
	Gone Standing = "gone"
)

// replaced reports whether what has the record's name is for a newer one to make
// and to take down. One that has ended takes nothing down any more.
func (s Standing) replaced() bool { return s == Awaited || s == Outdone || s == Doomed }

// shadowed reports whether a newer one is, or was, on the node under its name.
func (s Standing) shadowed() bool { return s == Outdone || s == Doomed || s == Gone }

// Over reports whether the record's time has come, as far as stopping goes.
func (f Facts) Over(r Record) bool {
	end := r.Reservation.Expires()
	return f.Time.Level >= clock.Stop && !f.Time.Now.Before(end) || Proven(end, r.Since, f.Time)
}

// removable reports whether its end is proven, also if a renewal waits that might
// move it as far as any may.
func (f Facts) removable(r Record) bool {
	end := r.Reservation.Expires()
	if r.Pending != nil {
		end = end.Add(f.Limits.Longest)
	}
	return Proven(end, r.Since, f.Time)
}
