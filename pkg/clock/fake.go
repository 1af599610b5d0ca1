package clock

import (
	"sync"
	"time"
)

// Fake is a clock that a test moves. It may be used from several goroutines.
type Fake struct {
	mu     sync.Mutex
	wall   time.Time
	boot   time.Duration
	timers []*fakeTimer
}

// NewFake makes a clock that shows wall and was booted a minute ago.
func NewFake(wall time.Time) *Fake { return &Fake{wall: wall.Round(0), boot: time.Minute} }

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Boot implements Clock.
func (f *Fake) Boot() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boot
}

// Advance lets d pass: both clocks go on, and timers fire.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall, f.boot = f.wall.Add(d), f.boot+d
	kept := f.timers[:0]
	for _, t := range f.timers {
		if t.at > f.boot {
			kept = append(kept, t)
			continue
		}
		t.c <- f.wall
	}
	f.timers = kept
}

// Jump sets the wall clock forward by d, or back by a negative one; no time passes.
func (f *Fake) Jump(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall = f.wall.Add(d)
}

// Waiting counts the timers that haven't fired or been stopped.
func (f *Fake) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.timers)
}

// NewTimer implements Clock.
func (f *Fake) NewTimer(d time.Duration) Timer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{fake: f, at: f.boot + d, c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- f.wall
		return t
	}
	f.timers = append(f.timers, t)
	return t
}

// After implements Clock.
func (f *Fake) After(d time.Duration) <-chan time.Time { return f.NewTimer(d).C() }

type fakeTimer struct {
	fake *Fake
	at   time.Duration
	c    chan time.Time
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Stop() bool {
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	for i, other := range t.fake.timers {
		if other == t {
			t.fake.timers = append(t.fake.timers[:i], t.fake.timers[i+1:]...)
			return true
		}
	}
	return false
}
