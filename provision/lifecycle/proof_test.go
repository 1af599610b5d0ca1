package lifecycle_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/provision/lifecycle"
)

func TestProven(t *testing.T) {
	end := began.Add(10 * day)
	taken := lifecycle.Since{Floor: began, Uptime: 40 * day, Known: true, Level: clock.Stop}
	cases := []struct {
		name  string
		since lifecycle.Since
		now   clock.Reading
		want  bool
	}{
		{"a time of level remove has reached it", taken, clock.Reading{Now: end, Level: clock.Remove, Uptime: 40 * day}, true},
		{"a time of level remove hasn't", taken, clock.Reading{Now: end.Add(-1), Level: clock.Remove, Uptime: 40 * day}, false},
		{"a time of level stop says nothing, however late", taken, clock.Reading{Now: end.Add(1000 * day), Level: clock.Stop, Uptime: 40 * day}, false},
		{"nor one of none", taken, clock.Reading{Now: end.Add(1000 * day), Uptime: 40 * day}, false},
		{"the node was up for all of it", taken, clock.Reading{Uptime: 50 * day}, true},
		{"it lacks a nanosecond", taken, clock.Reading{Uptime: 50*day - 1}, false},
		{"uptime counts whatever a clock says", taken, clock.Reading{Now: began.Add(-400 * day), Level: clock.Remove, Uptime: 50 * day}, true},
		{"a power cut took ten minutes of uptime", taken, clock.Reading{Uptime: 40*day - 10*time.Minute}, false},
		{"they are made up for later", taken, clock.Reading{Uptime: 50*day - 10*time.Minute}, false},
		{"nobody counted: uptime proves nothing", lifecycle.Since{}, clock.Reading{Uptime: 4000 * day}, false},
		{"nobody counted: a time does", lifecycle.Since{}, clock.Reading{Now: end, Level: clock.Remove}, true},
		{"without a floor uptime proves nothing", lifecycle.Since{Uptime: 40 * day, Known: true}, clock.Reading{Uptime: 4000 * day}, false},
		{"a later floor leaves less to wait for", lifecycle.Since{Floor: began.Add(9 * day), Uptime: 40 * day, Known: true}, clock.Reading{Uptime: 41 * day}, true},
		{"a floor past the end is the proof", lifecycle.Since{Floor: end, Uptime: 40 * day, Known: true}, clock.Reading{Uptime: 40 * day}, true},
	}
	for _, c := range cases {
		if got := lifecycle.Proven(end, c.since, c.now); got != c.want {
			t.Errorf("%s: proven is %t", c.name, got)
		}
	}
}

func TestLasted(t *testing.T) {
	stop := lifecycle.From(clock.Reading{Now: began, Level: clock.Stop, Uptime: 40 * day})
	remove := lifecycle.From(clock.Reading{Now: began, Level: clock.Remove, Uptime: 40 * day})
	cases := []struct {
		name  string
		since lifecycle.Since
		now   clock.Reading
		want  bool
	}{
		{"by uptime", stop, clock.Reading{Uptime: 47 * day}, true},
		{"not quite", stop, clock.Reading{Uptime: 47*day - 1}, false},
		{"by two times of level remove", remove, clock.Reading{Now: began.Add(grace), Level: clock.Remove, Uptime: 40 * day}, true},
		{"not quite", remove, clock.Reading{Now: began.Add(grace - 1), Level: clock.Remove, Uptime: 40 * day}, false},
		{"it began by a clock that may have been wrong", stop, clock.Reading{Now: began.Add(400 * day), Level: clock.Remove, Uptime: 40 * day}, false},
		{"it would end by one", remove, clock.Reading{Now: began.Add(400 * day), Level: clock.Stop, Uptime: 40 * day}, false},
		{"nobody counted", lifecycle.Since{}, clock.Reading{Now: began.Add(400 * day), Level: clock.Remove, Uptime: 4000 * day}, false},
		{"a power cut took uptime", stop, clock.Reading{Uptime: 40*day - time.Minute}, false},
	}
	for _, c := range cases {
		if got := lifecycle.Lasted(grace, c.since, c.now); got != c.want {
			t.Errorf("%s: lasted is %t", c.name, got)
		}
	}
}

// Until it is judged, a reservation's signed date may be ahead of the time, and
// proves nothing about it.
func TestADateAheadProvesNothing(t *testing.T) {
	rec := lifecycle.Record{Reservation: reservation()}
	rec.Reservation.Created = began.Add(300 * day)
	facts := lifecycle.Facts{Time: clock.Reading{Now: began, Uptime: 40 * day}, Limits: limits(), Name: lifecycle.Alone}
	waiting, _ := lifecycle.Next(lifecycle.Record{}, lifecycle.Event{Kind: lifecycle.Arrive, Record: rec}, facts)
	later := clock.Reading{Uptime: 51 * day}
	if lifecycle.Proven(waiting.Reservation.Expires(), waiting.Since, later) {
		t.Error("a reservation of the future has ended ten days after it came")
	}
	facts.Time = clock.Reading{Now: rec.Reservation.Created, Level: clock.Stop, Uptime: 340 * day}
	deployed, _ := lifecycle.Next(waiting, lifecycle.Event{Kind: lifecycle.Admit}, facts)
	end := deployed.Reservation.Expires()
	if lifecycle.Proven(end, deployed.Since, clock.Reading{Uptime: 350*day - 1}) || !lifecycle.Proven(end, deployed.Since, clock.Reading{Uptime: 350 * day}) {
		t.Errorf("what is taken in counts from then: since is %+v", deployed.Since)
	}
}
