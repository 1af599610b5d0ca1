package source_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A module loses workloads and tells some of it, over a stream that loses and doubles
// values, is cut and restarted, while looks fail at times: whatever is gone is looked at
// within the bound, and nothing is handed to the engine that wasn't told or listed whole.
func TestModelOfToldChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(r, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 4), len(steps), len(steps)).Draw(r, "workloads")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 15000), len(steps), len(steps)).Draw(r, "pauses")
		h := newHomes("1-1", "2-1", "3-1", "4-1", "5-1")
		var failure string
		telling(t, h, func(_ *testing.T, got *handled) {
			m := toldModel{homes: h, got: got}
			for i, step := range steps {
				m.do(step, h.all[picks[i]])
				for left := time.Duration(pauses[i]) * time.Millisecond; left > 0 && failure == ""; left -= time.Second {
					time.Sleep(min(left, time.Second))
					failure = m.check()
				}
				if failure != "" {
					return
				}
			}
			m.do(stepHeal, "")
			time.Sleep(bound)
			failure = m.check()
			if failure == "" && h.left() != 0 {
				failure = fmt.Sprintf("in the end %d are gone", h.left())
			}
		})
		if failure != "" {
			r.Fatal(failure)
		}
	})
}

const (
	// bound is the longest time until what is gone is looked at.
	bound    = 30 * time.Second
	stepHeal = 9
)

// toldModel is the state of one run.
type toldModel struct {
	*homes
	got *handled
	// failing is whether looks fail, worked when that last changed.
	failing bool
	worked  time.Time
	// disturbed is when the stream was last disturbed.
	disturbed time.Time
	mute      bool
	toldAt    map[string]time.Time
}

func (m *toldModel) do(step int, id string) {
	if m.toldAt == nil {
		m.toldAt, m.disturbed = map[string]time.Time{}, time.Now()
	}
	switch step {
	case 0, 1, 2:
		m.homes.mu.Lock()
		if _, gone := m.gone[id]; !gone {
			delete(m.toldAt, id) // that was an earlier time
		}
		m.homes.mu.Unlock()
		told := step < 2
		m.takeAway(id, told)
		if _, known := m.toldAt[id]; told && !known {
			m.toldAt[id] = time.Now()
		}
	case 3:
		m.hub.Tell(id, "99-9")
	case 4:
		m.set(func() { m.lose = 1 })
		m.disturbed = time.Now()
	case 5:
		m.set(func() { m.doubled = !m.doubled })
	case 6:
		m.restart()
		m.disturbed = time.Now()
	case 7:
		m.mute = !m.mute
		m.set(func() { m.teller.mute = m.mute })
		m.disturbed = time.Now()
	case 8:
		m.setFailing(!m.failing)
	case stepHeal:
		m.mute = false
		m.set(func() { m.teller.mute = false })
		m.disturbed = time.Now()
		m.setFailing(false)
	}
}

func (m *toldModel) setFailing(failing bool) {
	if m.failing = failing; failing {
		m.fail(errors.New("cannot look"))
	} else {
		m.fail(nil)
	}
	m.worked = time.Now()
}

// check says what is wrong, empty for nothing.
func (m *toldModel) check() string {
	m.got.mu.Lock()
	wrong := m.got.wrong
	m.got.mu.Unlock()
	if len(wrong) > 0 {
		return wrong[0]
	}
	m.homes.mu.Lock()
	defer m.homes.mu.Unlock()
	for id, at := range m.toldAt {
		if _, gone := m.gone[id]; !gone {
			delete(m.toldAt, id)
			continue
		}
		calm := !m.failing && !m.mute && time.Since(m.disturbed) > time.Minute && time.Since(m.worked) > time.Minute
		if calm && time.Since(at) > 3*time.Second {
			return fmt.Sprintf("%s was told %s ago, and isn't looked at", id, time.Since(at))
		}
	}
	for id, at := range m.gone {
		if at.Before(m.worked) {
			at = m.worked
		}
		if !m.failing && time.Since(at) > bound {
			return fmt.Sprintf("%s is gone for %s", id, time.Since(at))
		}
	}
	return ""
}
