package lifecycle_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// possible reports whether an event can come in a phase: a record arrives once,
// and only a waiting one is judged. Everything else can come at any time, because
// effects end late and sources repeat themselves.
func possible(p lifecycle.Phase, k lifecycle.Kind) bool {
	arrives := k == lifecycle.Arrive || k == lifecycle.Replay
	judged := k == lifecycle.Admit || k == lifecycle.Refuse || k == lifecycle.Postpone
	switch p {
	case lifecycle.None:
		return arrives
	case lifecycle.Waiting:
		return !arrives
	}
	return !arrives && !judged
}

// Every pair of phase and event has its answer, whatever the record and the facts:
// none panics, none changes its arguments, each saves before other effects.
func TestEveryPairIsAnswered(t *testing.T) {
	pairs := map[[2]string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		drawn := anyRecord(t)
		facts := anyFacts(t)
		for _, kind := range lifecycle.Kinds() {
			ev := anyEvent(t, kind)
			for _, phase := range append(lifecycle.Phases(), lifecycle.None) {
				rec := drawn.Clone()
				if rec.Phase = phase; phase == lifecycle.None {
					rec = lifecycle.Record{}
				}
				answer(t, rec, ev, facts)
				pairs[[2]string{string(phase), string(kind)}] = true
			}
		}
	})
	if want := 15 * 27; len(pairs) != want {
		t.Errorf("%d pairs of phase and event were asked, want %d", len(pairs), want)
	}
}

func answer(t *rapid.T, rec lifecycle.Record, ev lifecycle.Event, facts lifecycle.Facts) {
	given, givenEvent := copied(rec), ev
	givenEvent.Record, givenEvent.Reservation = copied(ev.Record), document(ev.Reservation)
	givenEvent.Renewal = renewed(ev.Renewal)
	if ev.Deletion != nil {
		deletion := *ev.Deletion
		givenEvent.Deletion = &deletion
	}
	next, effects := lifecycle.Next(rec, ev, facts)
	if !reflect.DeepEqual(rec, given) || !reflect.DeepEqual(ev, givenEvent) {
		t.Fatalf("%s in %q changes what it was given", ev.Kind, rec.Phase)
	}
	impossible := slices.Contains(kinds(effects), lifecycle.Impossible)
	if impossible == possible(rec.Phase, ev.Kind) {
		t.Fatalf("%s in %q: impossible is %t", ev.Kind, rec.Phase, impossible)
	}
	same := reflect.DeepEqual(next, rec)
	if impossible && (!same || len(effects) != 1) {
		t.Fatalf("%s in %q can't come, and changes something: %v", ev.Kind, rec.Phase, kinds(effects))
	}
	if next.Phase != lifecycle.None && !next.Phase.Known() {
		t.Fatalf("%s in %q leads to phase %q", ev.Kind, rec.Phase, next.Phase)
	}
	first, saves := kinds(effects), false
	if len(first) > 0 && first[0] == lifecycle.Save {
		first, saves = first[1:], true
	}
	if slices.Contains(first, lifecycle.Save) {
		t.Fatalf("%s in %q saves after something else, or twice: %v", ev.Kind, rec.Phase, kinds(effects))
	}
	parked := next.Phase == lifecycle.Waiting && slices.Contains(kinds(effects), lifecycle.Judge)
	if !saves && !parked && !same {
		t.Fatalf("%s in %q changes the record and doesn't save it: %v", ev.Kind, rec.Phase, kinds(effects))
	}
	if rec.Phase.Tombstone() && !next.Phase.Tombstone() && ev.Kind != lifecycle.Reconsider {
		t.Fatalf("%s brings back what is %s, as %s", ev.Kind, rec.Phase, next.Phase)
	}
}

// copied is a record that shares nothing with rec.
func copied(rec lifecycle.Record) lifecycle.Record {
	rec = rec.Clone()
	rec.Reservation, rec.Pending = document(rec.Reservation), renewed(rec.Pending)
	return rec
}

func document(r *workload.Reservation) *workload.Reservation {
	if r == nil {
		return nil
	}
	c := *r
	c.Data, c.Renewal = slices.Clone(r.Data), renewed(r.Renewal)
	if r.Deletion != nil {
		deletion := *r.Deletion
		c.Deletion = &deletion
	}
	return &c
}

func renewed(r *workload.Renewal) *workload.Renewal {
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

func anyTime(t *rapid.T, name string) time.Time {
	if days := rapid.IntRange(-40, 40).Draw(t, name); days != 40 {
		return began.Add(time.Duration(days) * day)
	}
	return time.Time{}
}

func anySince(t *rapid.T, name string) lifecycle.Since {
	return lifecycle.Since{
		Floor: anyTime(t, name), Uptime: time.Duration(rapid.IntRange(0, 100).Draw(t, name+" uptime")) * day,
		Known: rapid.Bool().Draw(t, name+" known"), Level: rapid.SampledFrom([]clock.Level{clock.None, clock.Stop, clock.Remove}).Draw(t, name+" level"),
	}
}

// anyRecord is a record with random members, also such as no history leads to.
func anyRecord(t *rapid.T) lifecycle.Record {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	rec := lifecycle.Record{
		Reservation: reservation(), Hash: workload.Hash{1}, Delivered: flag("delivered"),
		End: rapid.SampledFrom([]workload.State{
			"", workload.StateDeleted, workload.StateExpired, workload.StateEvicted, workload.StateError,
		}).Draw(t, "end"),
		Admitted: flag("admitted"), Begun: flag("begun"), Uncertain: flag("uncertain"), Removing: flag("removing"),
		Older: flag("older"), Unlabelled: flag("unlabelled"), Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
		Cause: rapid.SampledFrom([]string{"", "it failed"}).Draw(t, "cause"), Deployed: anyTime(t, "deployed"),
		Since: anySince(t, "since"), Holding: anySince(t, "holding"),
	}
	if flag("named") {
		rec.Name = lifecycle.NameKey{1}
	}
	if flag("bound") {
		rec.Bound = map[string]workload.Hash{"2-1": {2}}
	}
	if flag("pending") {
		rec.Pending = &workload.Renewal{Expires: anyTime(t, "pending")}
	}
	if flag("deletion") {
		rec.Reservation.Deletion = &workload.Deletion{Created: began}
	}
	if flag("result") {
		rec.Result = &workload.Result{ID: "1-1", State: rapid.SampledFrom([]workload.State{
			workload.StateOK, workload.StateError, workload.StateDeleted, workload.StateExpired, workload.StateEvicted,
		}).Draw(t, "state")}
	}
	return rec
}

func anyFacts(t *rapid.T) lifecycle.Facts {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return lifecycle.Facts{
		Time: clock.Reading{
			Now: anyTime(t, "now"), Level: rapid.SampledFrom([]clock.Level{clock.None, clock.Stop, clock.Remove}).Draw(t, "level"),
			Uptime: time.Duration(rapid.IntRange(0, 100).Draw(t, "uptime")) * day,
		},
		Type: lifecycle.TypeFacts{HoldsData: flag("holds data"), Stops: flag("stops"), Prepares: flag("prepares"), Apart: flag("apart")},
		Name: rapid.SampledFrom([]lifecycle.Standing{
			lifecycle.Alone, lifecycle.Newest, lifecycle.Awaited, lifecycle.Outdone, lifecycle.Doomed, lifecycle.Gone,
		}).Draw(t, "standing"),
		InFlight: flag("in flight"), Crowded: flag("crowded"), Returns: flag("returns"), Limits: limits(),
	}
}

// anyEvent is an event with all members of its kind.
func anyEvent(t *rapid.T, kind lifecycle.Kind) lifecycle.Event {
	ev := lifecycle.Event{
		Kind: kind, Record: lifecycle.Record{Reservation: reservation(), Hash: workload.Hash{1}}, Reservation: reservation(),
		Deletion: &workload.Deletion{Created: began}, Renewal: &workload.Renewal{Expires: anyTime(t, "expires")},
		Data: json.RawMessage(`{"ip":"10.0.0.2"}`), Err: node.Errorf(node.Transient, "it failed"),
		Older: rapid.Bool().Draw(t, "older"), End: workload.StateDeleted, Pause: time.Second,
	}
	if kind == lifecycle.Arrive && rapid.Bool().Draw(t, "without deletion") {
		ev.Deletion = nil
	}
	return ev
}

func reservation() *workload.Reservation {
	return &workload.Reservation{
		ID: "1-1", NodeID: "node", User: "user", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1}`),
		Created: began, Duration: 10 * day,
	}
}
