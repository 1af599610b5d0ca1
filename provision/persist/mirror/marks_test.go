package mirror

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	for _, c := range []struct {
		took time.Duration
		busy bool
		age  time.Duration
		want time.Duration
	}{
		{time.Millisecond, true, 0, backShare * time.Millisecond},
		{time.Hour, true, patience, longestBack},
		{time.Hour, false, 0, 0},
		{time.Hour, true, patience + 1, 0}, // it falls behind
	} {
		if got := pauseAfter(c.took, c.busy, c.age); got != c.want {
			t.Errorf("%+v: the pause is %s", c, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stepBack(ended, 24*time.Hour) // it doesn't outlive its context
}

// While it gives way a mirror does one thing at a time, and goes on with the others at once when it needn't any more.
func TestAMirrorTakesTurns(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(giveWay *atomic.Bool, cancel func())
		// together is whether all that wait go on beside the one that has the turn.
		together bool
	}{
		"the store is at rest":  {func(giveWay *atomic.Bool, _ func()) { giveWay.Store(false) }, true},
		"the mirror is stopped": {func(_ *atomic.Bool, cancel func()) { cancel() }, true},
		"the store goes on":     {func(*atomic.Bool, func()) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var giveWay atomic.Bool
				giveWay.Store(true)
				turn, enough := make(chan struct{}, 1), make(chan struct{})
				var at, most atomic.Int64
				for range atOnce {
					go func() {
						leave := takeTurn(ctx, turn, giveWay.Load)
						defer leave()
						most.Store(max(most.Load(), at.Add(1)))
						<-enough
						at.Add(-1)
					}()
				}
				synctest.Wait()
				if n := at.Load(); n != 1 {
					t.Errorf("%d at a time while it gives way", n)
				}
				c.ends(&giveWay, cancel)
				time.Sleep(2 * busyFor)
				synctest.Wait()
				want := int64(1)
				if c.together {
					want = atOnce
				}
				if n := at.Load(); n != want {
					t.Errorf("%d at a time after that, must be %d", n, want)
				}
				close(enough)
				time.Sleep(2 * busyFor)
				synctest.Wait()
				if n := at.Load(); n != 0 || len(turn) != 0 {
					t.Errorf("%d are left, and %d have the turn", n, len(turn))
				}
				if !c.together && most.Load() != 1 {
					t.Errorf("%d at a time though the store goes on", most.Load())
				}
			})
		})
	}
}

// The oldest change is known until a list has it, and what is only compared is none.
func TestTheOldestChange(t *testing.T) {
	m, now := newMarks(), time.Now()
	oldest := func(when string, want time.Time) {
		t.Helper()
		if got := m.oldestChange(now); !got.Equal(want) {
			t.Errorf("%s: %s ago, want %s", when, now.Sub(got), now.Sub(want))
		}
	}
	oldest("no change", now)
	m.check(now.Add(-time.Hour), "1-1", "2-1")
	oldest("compared alone", now)
	m.end(now.Add(-time.Minute), "3-1")
	m.end(now, "3-1", "4-1")
	oldest("changed", now.Add(-time.Minute))
	m.end(now, "1-1")
	oldest("changed since it was to be compared", now.Add(-time.Hour))
	some, _ := m.first(9)
	read := map[string]uint64{}
	for name, at := range some {
		read[name] = at.number
	}
	if _, whole := m.unread(read); !whole {
		t.Error("they aren't taken")
	}
	oldest("sent, and not listed", now.Add(-time.Hour))
	m.listed()
	oldest("listed", now)
}
