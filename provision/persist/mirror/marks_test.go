package mirror

import (
	"context"
	"testing"
	"time"
)

// A name that the store has changed is told from one that is only compared, until a list has the change.
func TestMarksKnowChanges(t *testing.T) {
	m, now := newMarks(), time.Now()
	checked := func(when string, want bool) {
		t.Helper()
		m.check(now, "1-1")
		some, _ := m.first(1)
		if some["1-1"].checked != want {
			t.Errorf("%s: %+v, want checked %t", when, some["1-1"], want)
		}
	}
	take := func() {
		t.Helper()
		some, _ := m.first(1)
		if _, whole := m.unread(map[string]uint64{"1-1": some["1-1"].number}); !whole {
			t.Error("it isn't taken")
		}
	}
	checked("compared alone", true)
	m.end(now, "1-1")
	checked("changed", false)
	take()
	checked("sent, and not listed", false)
	take()
	m.back("1-1")
	checked("couldn't be sent", false)
	take()
	m.listed()
	checked("listed", true)
	take()
	m.back("1-1")
	checked("compared alone, and couldn't be sent", true)
}

// A mirror steps back while the store changes, and at no other time.
func TestAMirrorStepsBack(t *testing.T) {
	m := newMarks()
	now := time.Now()
	if m.busy(now) {
		t.Error("a store that has never changed is busy")
	}
	m.begin()
	m.end(now, "1-1")
	if !m.busy(now) || !m.busy(now.Add(busyFor-1)) || m.busy(now.Add(busyFor)) {
		t.Error("busy isn't what it is for a while after a change")
	}
	m.check(now.Add(time.Hour), "2-1")
	if m.busy(now.Add(time.Hour)) {
		t.Error("a check is no change")
	}
	w := &writer{mirror: &Mirror{marks: m}}
	pause := func() time.Duration {
		began := time.Now()
		w.stepBack(t.Context(), longestBack)
		return time.Since(began)
	}
	m.end(time.Now(), "1-1")
	if took := pause(); took < longestBack {
		t.Errorf("beside changes the pause is %s", took)
	}
	m.changed = time.Time{}
	if took := pause(); took >= longestBack {
		t.Errorf("without changes the pause is %s", took)
	}
	m.end(time.Now(), "1-1")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.stepBack(ended, time.Hour) // the longest pause is bounded, and none outlives its context
}
