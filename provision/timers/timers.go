// Package timers says when the engine looks at which record next: at attempts, ends
// and proofs of an end. It owns nothing, and reads no clock.
package timers

import (
	"math"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workqueue"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Timers are the records' next times. They are for one goroutine alone.
type Timers struct {
	// tries are by the node's uptime: the next attempt, the next look.
	tries *workqueue.Schedule[string]
	// stops are ends by a clock of level Stop, removals ends by one of level Remove,
	// proofs ends by the node's uptime.
	stops    *workqueue.Schedule[string]
	removals *workqueue.Schedule[string]
	proofs   *workqueue.Schedule[string]
	// look is the longest sleep: a clock may be set meanwhile.
	look time.Duration
}

// New returns timers without a record; look is the longest time that Wait returns.
func New(look time.Duration) *Timers {
	empty := func() *workqueue.Schedule[string] { return workqueue.NewSchedule[string](strings.Compare) }
	return &Timers{tries: empty(), stops: empty(), removals: empty(), proofs: empty(), look: look}
}

// Try has a record looked at after a delay.
func (t *Timers) Try(rec store.Record, now clock.Reading, after time.Duration) {
	t.tries.Set(rec.ID(), source.Rank(rec.Reservation.Type), int64(now.Uptime+after))
}

// Forget drops an ID.
func (t *Timers) Forget(id string) {
	for _, each := range []*workqueue.Schedule[string]{t.tries, t.stops, t.removals, t.proofs} {
		each.Remove(id)
	}
}

// Set schedules the look at the record's end. An end that has come and changed
// nothing, such as one with a pending renewal, is looked at again after a while.
func (t *Timers) Set(rec store.Record, now clock.Reading) {
	id, rank := rec.ID(), source.Rank(rec.Reservation.Type)
	end := nanos(rec.Reservation.Expires())
	t.stops.Remove(id)
	t.removals.Remove(id)
	t.proofs.Remove(id)
	if rec.Phase == lifecycle.Waiting || rec.Phase == lifecycle.Dismissed {
		return
	}
	proof := int64(math.MaxInt64)
	if rec.Since.Known {
		proof = int64(rec.Since.Uptime) + int64(rec.Reservation.Expires().Sub(rec.Since.Floor))
	}
	wall := nanos(now.Now)
	if now.Level == clock.Remove && wall >= end || int64(now.Uptime) >= proof {
		t.Try(rec, now, t.again(rec))
		return
	}
	if rec.Phase.Wanted() && now.Level == clock.Stop && wall >= end {
		t.Try(rec, now, t.again(rec))
	} else if rec.Phase.Wanted() {
		t.stops.Set(id, rank, end)
	}
	t.removals.Set(id, rank, end)
	t.proofs.Set(id, rank, proof)
}

// BuryLater is the delay before another look at a tombstone that can't be buried
// yet.
const BuryLater = time.Hour

func (t *Timers) again(rec store.Record) time.Duration {
	if rec.Tombstone() {
		return BuryLater
	}
	return t.look
}

// Due removes and returns the IDs that are due now, users of a thing before the thing.
func (t *Timers) Due(now clock.Reading) []string {
	var out []string
	seen := map[string]bool{}
	add := func(ids []string) {
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	add(t.tries.Take(int64(now.Uptime)))
	add(t.proofs.Take(int64(now.Uptime)))
	if now.Level >= clock.Stop {
		add(t.stops.Take(nanos(now.Now)))
	}
	if now.Level == clock.Remove {
		add(t.removals.Take(nanos(now.Now)))
	}
	return out
}

// Wait is how long nothing will be due, at most look.
func (t *Timers) Wait(now clock.Reading) time.Duration {
	wait := int64(t.look)
	sooner := func(d *workqueue.Schedule[string], now int64) {
		if at, some := d.Next(); some {
			wait = min(wait, max(at-now, 0))
		}
	}
	sooner(t.tries, int64(now.Uptime))
	sooner(t.proofs, int64(now.Uptime))
	if now.Level >= clock.Stop {
		sooner(t.stops, nanos(now.Now))
	}
	if now.Level == clock.Remove {
		sooner(t.removals, nanos(now.Now))
	}
	return time.Duration(wait)
}

// nanos is a time in Unix nanoseconds; one out of range becomes the smallest or largest int64.
func nanos(t time.Time) int64 {
	switch {
	case t.Year() < 1700:
		return math.MinInt64
	case t.Year() > 2250:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Len is the number of entries by kind, for tests and figures.
func (t *Timers) Len() map[string]int {
	return map[string]int{"tries": t.tries.Len(), "stops": t.stops.Len(), "removals": t.removals.Len(), "proofs": t.proofs.Len()}
}
