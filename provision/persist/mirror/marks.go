package mirror

import (
	"strings"
	"sync"
	"time"
)

// marks are the names that have changed since the mirror's list.
type marks struct {
	mu sync.Mutex
	// own are the names of the store's own state that are to be sent, rest the others.
	own, rest map[string]mark
	// sent are the names whose objects are there, or needn't be, and that the list may not tell yet.
	sent  map[string]mark
	count uint64
	// writing is whether a change of the store has begun and isn't marked yet: a part of it may have been read.
	writing bool
	// wake has one element when there is something new.
	wake chan struct{}
}

// mark is a change: the time of the name's first one since it was listed, and a number that grows with each.
type mark struct {
	since  time.Time
	number uint64
}

func newMarks() *marks {
	return &marks{own: map[string]mark{}, rest: map[string]mark{}, sent: map[string]mark{}, wake: make(chan struct{}, 1)}
}

// of is where a name waits.
func (m *marks) of(name string) map[string]mark {
	if strings.HasPrefix(name, "meta/") {
		return m.own
	}
	return m.rest
}

// begin notes that a change of the store has begun.
func (m *marks) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing = true
}

// end marks the names that the change has changed.
func (m *marks) end(now time.Time, names ...string) {
	m.add(now, names...)
	m.mu.Lock()
	m.writing = false
	m.mu.Unlock()
	m.rouse()
}

// rouse wakes who waits for something new.
func (m *marks) rouse() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// add marks names. It never waits.
func (m *marks) add(now time.Time, names ...string) {
	if len(names) == 0 {
		return
	}
	m.mu.Lock()
	for _, name := range names {
		m.count++
		since := now
		for _, was := range []map[string]mark{m.of(name), m.sent} {
			if old, marked := was[name]; marked && old.since.Before(since) {
				since = old.since
			}
		}
		delete(m.sent, name)
		m.of(name)[name] = mark{since: since, number: m.count}
	}
	m.mu.Unlock()
	m.rouse()
}

// first returns at most most names that are to be sent, with their marks; the store's own state comes first. idle is whether there is none, and
// no change under way.
func (m *marks) first(most int) (out map[string]mark, idle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out = map[string]mark{}
	for _, some := range []map[string]mark{m.own, m.rest} {
		for name, at := range some {
			if len(out) == most {
				return out, false
			}
			out[name] = at
		}
	}
	return out, len(out) == 0 && !m.writing
}

// wait reports whether names wait to be sent.
func (m *marks) wait() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.own)+len(m.rest) > 0
}

// done notes that a name was sent, unless it has changed since.
func (m *marks) done(name string, was mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, marked := m.of(name)[name]; marked && now.number == was.number {
		delete(m.of(name), name)
		m.sent[name] = now
	}
}

// listed removes the marks of what was sent: the list tells it now.
func (m *marks) listed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.sent)
}

// lag is the number of names, and the time of the oldest change; zero when there is none.
func (m *marks) lag() (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var oldest time.Time
	for _, some := range []map[string]mark{m.own, m.rest, m.sent} {
		for _, at := range some {
			if oldest.IsZero() || at.since.Before(oldest) {
				oldest = at.since
			}
		}
	}
	return len(m.own) + len(m.rest) + len(m.sent), oldest
}
