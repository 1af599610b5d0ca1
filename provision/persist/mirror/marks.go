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
	// taken are the names whose contents of the next list are known, and are sent or being sent, with the marks of their first change that
	// isn't listed. One that has changed again since is also among those that are to be sent.
	taken map[string]mark
	count uint64
	// writing is whether a change of the store has begun and isn't marked yet: a part of it may have been read.
	writing bool
	// changed is when the last change of the store ended.
	changed time.Time
	// wake has one element when there is something new.
	wake chan struct{}
}

// mark is a change: the time of the name's first one since it was taken, and a number that grows with each.
type mark struct {
	since  time.Time
	number uint64
	// checked is whether the name is marked to be compared with the mirror alone: nothing tells that the store has changed it.
	checked bool
}

func newMarks() *marks {
	return &marks{own: map[string]mark{}, rest: map[string]mark{}, taken: map[string]mark{}, wake: make(chan struct{}, 1)}
}

// of is where a name waits.
func (m *marks) of(name string) map[string]mark {
	if strings.HasPrefix(name, metaFolder) {
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
	m.mu.Lock()
	for _, name := range names {
		m.mark(name, mark{since: now})
	}
	m.writing, m.changed = false, now
	m.mu.Unlock()
	m.rouse()
}

// busy reports whether the store changes in these moments.
func (m *marks) busy(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.changed) < busyFor
}

// rouse wakes who waits for something new.
func (m *marks) rouse() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// check marks names that are to be compared with the mirror.
func (m *marks) check(now time.Time, names ...string) {
	if len(names) == 0 {
		return
	}
	m.mu.Lock()
	for _, name := range names {
		m.mark(name, mark{since: now, checked: true})
	}
	m.mu.Unlock()
	m.rouse()
}

// mark marks a name. The caller holds mu.
func (m *marks) mark(name string, at mark) {
	m.count++
	at.number = m.count
	if old, marked := m.of(name)[name]; marked {
		at = at.with(old)
	}
	if taken, is := m.taken[name]; is && !taken.checked {
		at.checked = false // a change that no list has yet
	}
	m.of(name)[name] = at
}

// with is the mark of a name that has an earlier one too.
func (at mark) with(old mark) mark {
	if old.since.Before(at.since) {
		at.since = old.since
	}
	at.checked = at.checked && old.checked
	return at
}

// first returns at most most names that are to be sent, with their marks; the store's own state comes first. all is how many there are.
func (m *marks) first(most int) (out map[string]mark, all int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out = map[string]mark{}
	for _, some := range []map[string]mark{m.own, m.rest} {
		for name, at := range some {
			if len(out) < most {
				out[name] = at
			}
		}
	}
	return out, len(m.own) + len(m.rest)
}

// unread are the marked names that have changed since they were read; read has the numbers that their marks had then. When there is none and no
// change of the store is under way, what was read is the store at this moment: all marked names are taken, and whole is true.
func (m *marks) unread(read map[string]uint64) (names map[string]mark, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names = map[string]mark{}
	for _, some := range []map[string]mark{m.own, m.rest} {
		for name, at := range some {
			if number, known := read[name]; !known || number != at.number {
				names[name] = at
			}
		}
	}
	if len(names) > 0 || m.writing {
		return names, false
	}
	for _, some := range []map[string]mark{m.own, m.rest} {
		for name, at := range some {
			m.take(name, at)
		}
		clear(some)
	}
	return names, true
}

// take notes that a name's content is known. The caller holds mu.
func (m *marks) take(name string, at mark) {
	if old, taken := m.taken[name]; taken {
		at = at.with(old)
	}
	m.taken[name] = at
}

// back marks names again that were taken and couldn't be sent.
func (m *marks) back(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if at, taken := m.taken[name]; taken {
			m.mark(name, at)
		}
	}
}

// wait reports whether names wait to be sent.
func (m *marks) wait() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.own)+len(m.rest) > 0
}

// done takes a name that was sent as it was when it had a mark, unless it has changed since.
func (m *marks) done(name string, was mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, marked := m.of(name)[name]; marked && now.number == was.number {
		delete(m.of(name), name)
		m.take(name, now)
	}
}

// listed forgets what was taken: the list tells it now.
func (m *marks) listed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.taken)
}

// oldestChange is when the first change happened that isn't listed; now when there is none. What is only compared doesn't count.
func (m *marks) oldestChange(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, some := range []map[string]mark{m.own, m.rest, m.taken} {
		for _, at := range some {
			if !at.checked && at.since.Before(now) {
				now = at.since
			}
		}
	}
	return now
}

// lag is the number of names, and the time of the oldest change; zero when there is none.
func (m *marks) lag() (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]bool{}
	var oldest time.Time
	note := func(name string, since time.Time) {
		if all[name] = true; oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	for _, some := range []map[string]mark{m.own, m.rest} {
		for name, at := range some {
			note(name, at.since)
		}
	}
	for name, at := range m.taken {
		note(name, at.since)
	}
	return len(all), oldest
}
