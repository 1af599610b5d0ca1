package lifecycle_test

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// promise is what one user may rely on, from signed documents and orders. It
// derives from events alone, and knows no phase.
type promise struct {
	created  time.Time
	end      time.Time // the signed one
	later    time.Time // that of a pending renewal; zero for none
	ahead    bool      // its signed date hadn't come when it arrived
	accepted bool
	deleted  bool
	evicted  time.Time // when, in truth; zero if it wasn't
	deployed bool      // it was on the node, and the record knows
	failed   bool      // a final error before it ever was deployed
	ended    bool      // its removal was decided: it doesn't come back
}

// promises are those of a machine. An event's change counts once the record that
// it changed is durable.
type promises struct {
	m      *machine
	of     map[string]promise
	staged map[string]promise
}

func newPromises(m *machine) *promises {
	return &promises{m: m, of: map[string]promise{}, staged: map[string]promise{}}
}

func (p *promises) keep(id string) {
	if made, ok := p.staged[id]; ok {
		p.of[id] = made
		delete(p.staged, id)
	}
}

func (p *promises) dropAll() { clear(p.staged) }

func (p *promises) get(id string) promise {
	if made, ok := p.staged[id]; ok {
		return made
	}
	return p.of[id]
}

// over reports whether its own end has come, by the true time or by somebody's order.
func (p *promises) over(id string) bool {
	one := p.get(id)
	return one.deleted || !one.evicted.IsZero() || !p.m.truth.Before(one.end)
}

// rivals are the newer accepted reservations of its name that didn't fail.
func (p *promises) rivals(id string) (out []string) {
	for _, other := range p.ids() {
		if one := p.get(other); p.m.named && other != id && one.accepted && !one.failed && one.created.After(p.get(id).created) {
			out = append(out, other)
		}
	}
	return out
}

func (p *promises) ids() (out []string) {
	for _, of := range []map[string]promise{p.of, p.staged} {
		for id := range of {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out
}

// superseded reports whether a newer one of its name was on the node, or has
// ended; surely whether that is the newest one, and not only by the time.
func (p *promises) superseded(id string) (is, surely bool) {
	rivals := p.rivals(id)
	for _, other := range rivals {
		one := p.get(other)
		ended := one.ended || one.deleted || !one.evicted.IsZero()
		newest := !slices.ContainsFunc(rivals, func(o string) bool { return p.get(o).created.After(one.created) })
		surely = surely || one.deployed || ended && newest
		is = is || surely || ended || p.over(other)
	}
	return is, surely
}

// live reports whether its user may count on it. possibly covers the time when a
// newer one of its name is over and nothing proves that yet.
func (p *promises) live(id string) (is, possibly bool) {
	one := p.get(id)
	ended, surely := p.superseded(id)
	wanted := one.accepted && !one.failed && !p.over(id)
	return wanted && !ended, wanted && !surely
}

// check compares one answer of the table with the promises.
func (p *promises) check(was, next lifecycle.Record, ev lifecycle.Event, effects []lifecycle.Effect) {
	id := next.ID()
	saves := len(effects) > 0 && effects[0].Kind == lifecycle.Save
	p.checkResult(was, next, ev, effects)
	before := p.get(id)
	after := heard(before, was, next, ev, p.m.truth)
	if ev.Kind == lifecycle.Arrive {
		p.of[id] = after // it isn't durable before it was judged; it comes again
	}
	if saves {
		p.staged[id] = after
	}
	p.checkRemoval(was, next, ev)
	for _, e := range effects {
		early := p.m.truth.Before(next.Reservation.Expires()) && !before.ahead
		if e.Kind == lifecycle.Bury && (early || !next.Tombstone()) {
			p.m.fatalf("%s is buried before its signed end has passed", id)
		}
		if e.Kind == lifecycle.Bury && p.m.returns && (next.Phase != lifecycle.Refused || before.deleted) {
			p.m.fatalf("%s is buried, and could be brought again", id)
		}
	}
	if made := p.staged[id]; saves && !made.ended && next.Tombstone() {
		made.ended = next.Phase == lifecycle.Ended
		p.staged[id] = made
	}
}

// heard returns a promise after an event.
func heard(one promise, was, next lifecycle.Record, ev lifecycle.Event, now time.Time) promise {
	early := was.Deployed.IsZero()
	switch ev.Kind {
	case lifecycle.Arrive:
		one = promise{created: next.Reservation.Created, end: next.Reservation.Expires(), deleted: ev.Deletion != nil}
		// A user who signs ahead of time, on a node whose clock is lied to, has no proof
		// but the lie: it costs nobody else anything.
		one.ahead = one.created.After(now)
		if ev.RenewalLater != nil {
			one.later = ev.RenewalLater.Expires
		}
	case lifecycle.Admit:
		one.accepted = !one.deleted
	case lifecycle.Delete:
		one.deleted = true
	case lifecycle.Evict:
		one.evicted = now
	case lifecycle.Renew:
		if was.Phase == lifecycle.Leaving { // it is being removed: too late, unless others keep it
			one.later = ev.Renewal.Expires
			break
		}
		if one.end = ev.Renewal.Expires; !one.later.After(one.end) {
			one.later = time.Time{}
		}
	case lifecycle.RenewLater:
		if ev.Renewal.Expires.After(one.later) {
			one.later = ev.Renewal.Expires
		}
	case lifecycle.RenewNever:
		one.later = time.Time{}
	case lifecycle.Provisioned:
		one.deployed = true
	case lifecycle.Replace:
		// A newer one was accepted before it ever was on the node.
		one.failed = one.failed || early && (next.Phase == lifecycle.Failed || next.End == workload.StateError)
	case lifecycle.FailFinal:
		making := was.Phase == lifecycle.Fetching || was.Phase == lifecycle.Intent
		one.failed = one.failed || making && early
	}
	return one
}

// checkRemoval asserts that nothing irreversible is done without proof.
func (p *promises) checkRemoval(was, next lifecycle.Record, ev lifecycle.Event) {
	id, one := next.ID(), p.get(next.ID())
	leaves := next.Phase == lifecycle.Leaving && was.Phase != lifecycle.Leaving
	entombed := (next.Phase == lifecycle.Ended || next.Phase == lifecycle.Failed) && !was.Tombstone() && was.Phase != lifecycle.Leaving
	if !leaves && !entombed {
		return
	}
	mayEnd := one.end
	if !one.later.IsZero() {
		mayEnd = mayEnd.Add(longest) // the pending renewal may move it
	}
	expired := !p.m.truth.Before(mayEnd)
	graceOver := !one.evicted.IsZero() && (!p.m.types.HoldsData || p.m.truth.Sub(one.evicted) >= grace || !was.Begun)
	superseded, _ := p.superseded(id)
	if !one.deleted && !graceOver && !expired && !one.failed && !superseded {
		p.m.fatalf("%s goes from %s to %s by %s: nothing proves that it may", id, was.Phase, next.Phase, ev.Kind)
	}
	if !leaves || p.m.types.Apart {
		return
	}
	for _, other := range p.ids() {
		live, _ := p.live(other)
		if live && other != id && p.m.named && p.get(other).deployed {
			p.m.fatalf("%s decommissions what has its name, which %s stands for", id, other)
		}
	}
}

// checkResult asserts that each change is told once, after it is durable, and that
// an ended reservation doesn't come back.
func (p *promises) checkResult(was, next lifecycle.Record, ev lifecycle.Event, effects []lifecycle.Effect) {
	for i, e := range effects {
		switch {
		case e.Kind == lifecycle.Impossible:
			p.m.fatalf("%s: %s can't come in %s, and it did", next.ID(), ev.Kind, was.Phase)
		case e.Kind == lifecycle.Save && i > 0:
			p.m.fatalf("%s: %s in %s saves after %v", next.ID(), ev.Kind, was.Phase, kinds(effects))
		}
	}
	if was.Result == next.Result || next.Result == nil || was.Result != nil && *resultless(was) == *resultless(next) {
		return
	}
	told := 0
	for _, e := range effects {
		if e.Kind == lifecycle.Tell {
			told++
		}
	}
	if told != 1 || effects[0].Kind != lifecycle.Save || next.Delivered {
		p.m.fatalf("%s: the new result of %s in %s is told %d times: %v", next.ID(), ev.Kind, was.Phase, told, kinds(effects))
	}
	if was.Result != nil && workload.Ended(was.Result.State) && !workload.Ended(next.Result.State) {
		p.m.fatalf("%s: the answer goes back from %s to %s by %s", next.ID(), was.Result.State, next.Result.State, ev.Kind)
	}
}

// told is the part of a result that a user compares.
type told struct {
	state    workload.State
	text     string
	data     string
	created  time.Time
	sequence int64
}

func resultless(rec lifecycle.Record) *told {
	r := rec.Result
	return &told{r.State, r.Error, string(r.Data), r.Created, r.Sequence}
}

func (one promise) words() string {
	out := ""
	for word, is := range map[string]bool{
		"ahead": one.ahead, "accepted": one.accepted, "deleted": one.deleted, "deployed": one.deployed, "failed": one.failed, "ended": one.ended,
	} {
		if is {
			out += " " + word
		}
	}
	return out
}
