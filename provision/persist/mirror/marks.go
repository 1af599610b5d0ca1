package mirror

import (
	"strings"
	"sync"
	"time"
)

// marks are the names that have changed and aren't on the mirror yet.
type marks struct {
	mu sync.Mutex
	// names has each with the time of its first change since it was sent, and a number that grows with each change.
	names map[string]mark
	count uint64
	// wake has one element when there is something new.
	wake chan struct{}
}

type mark struct {
	since  time.Time
	number uint64
	// sent is whether its object is there, or needn't be; the list may not tell it yet.
	sent bool
}

func newMarks() *marks { return &marks{names: map[string]mark{}, wake: make(chan struct{}, 1)} }

// add marks names. It never waits.
func (m *marks) add(now time.Time, names ...string) {
	if len(names) == 0 {
		return
	}
	m.mu.Lock()
	for _, name := range names {
		m.count++
		old, marked := m.names[name]
		if !marked {
			old.since = now
		}
		old.number, old.sent = m.count, false
		m.names[name] = old
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// first returns at most most names that aren't sent, with their marks; the store's own state comes first.
func (m *marks) first(most int) map[string]mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]mark{}
	for _, own := range []bool{true, false} {
		for name, at := range m.names {
			if len(out) == most {
				return out
			}
			if !at.sent && strings.HasPrefix(name, "meta/") == own {
				out[name] = at
			}
		}
	}
	return out
}

// done notes that a name was sent, unless it has changed since.
func (m *marks) done(name string, was mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, marked := m.names[name]; marked && now.number == was.number {
		now.sent = true
		m.names[name] = now
	}
}

// listed removes the marks of what was sent: the list tells it now.
func (m *marks) listed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, at := range m.names {
		if at.sent {
			delete(m.names, name)
		}
	}
}

// lag is the number of names, and the time of the oldest change; zero when there is none.
func (m *marks) lag() (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var oldest time.Time
	for _, at := range m.names {
		if oldest.IsZero() || at.since.Before(oldest) {
			oldest = at.since
		}
	}
	return len(m.names), oldest
}
