package lifecycle

import (
	"time"

	"github.com/croft-edge/croft/pkg/clock"
)

// Facts is Next's input beside the record and the event.
type Facts struct {
	// Time is the present time, how far it can be trusted, and the node's uptime.
	Time clock.Reading
	Type TypeFacts
	// Name is the record's standing among those of its name.
	Name Standing
	// InFlight is whether an effect of the record is in flight.
	InFlight bool
	// Older is whether it may have been here in an earlier life of the store, whose records were lost.
	Older bool
	// Returns is whether the node would accept it after its known end, if it had no
	// record of it: by a renewal that was withheld from the node, or by other dates
	// where these aren't signed.
	Returns bool
	// Crowded is whether the limit of remembered refused reservations is reached.
	Crowded bool
	// Roomy is whether tombstones of accepted reservations may be kept for longer than
	// they must.
	Roomy  bool
	Limits Limits
}

// TypeFacts are the properties of the record's type of workload on this node.
type TypeFacts struct {
	// HoldsData is whether decommissioning one loses its user's data; Stops whether
	// one can be stopped without losing any; Prepares whether something is fetched
	// ahead of it.
	HoldsData bool
	Stops     bool
	Prepares  bool
	// Apart is whether each reservation of a name has a workload of its own, of which
	// one runs at a time, rather than all sharing one. A newer one is told ok once it
	// has taken the older one's place for good; until then the node has the older one.
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
	// TellAfter is how many attempts fail before the user is told.
	TellAfter int
	// Longest is how long past its end a workload is kept for a renewal that no
	// trusted time has judged.
	Longest time.Duration
}

// Standing is a record's position among the accepted ones of its name.
type Standing string

// The standings.
const (
	// Alone: it has no name, or is the newest of it and no older one is on the node.
	Alone Standing = "alone"
	// Newest: it is the newest of its name, and an older one is on the node.
	Newest Standing = "newest"
	// Awaited: a newer one was accepted and isn't on the node yet.
	Awaited Standing = "awaited"
	// Outdone: a newer one is on the node.
	Outdone Standing = "outdone"
	// Doomed: a newer one is leaving, and ends all others with it.
	Doomed Standing = "doomed"
	// Gone: the newest has ended; this one ends with it.
	Gone Standing = "gone"
)

// replaced reports whether the workload under the record's name is a newer one's
// to make and to decommission. A newer one that has ended does neither any more.
func (s Standing) replaced() bool { return s == Awaited || s == Outdone || s == Doomed }

// shadowed reports whether a newer one is, or was, on the node under its name.
func (s Standing) shadowed() bool { return s == Outdone || s == Doomed || s == Gone }

// Over reports whether the record has expired, as far as stopping needs.
func (f Facts) Over(r Record) bool {
	end := r.Reservation.Expires()
	return f.Time.Level >= clock.Stop && !f.Time.Now.Before(end) || Proven(end, r.Since, f.Time)
}

// removable reports whether its end is proven, also if a pending renewal might
// move it by the longest time.
func (f Facts) removable(r Record) bool {
	end := r.Reservation.Expires()
	if r.Pending != nil {
		end = end.Add(f.Limits.Longest)
	}
	return Proven(end, r.Since, f.Time)
}
