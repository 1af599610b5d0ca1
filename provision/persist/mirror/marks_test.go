package mirror

import (
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
