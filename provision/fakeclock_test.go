package provision_test

import (
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
)

// fakeClock is a wall clock that can be set and doubted.
type fakeClock struct {
	mu        sync.Mutex
	began     time.Time
	offset    time.Duration
	untrusted bool
	one       bool // only the explorer vouches
}

func (c *fakeClock) Now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset), !c.untrusted
}

// Read implements provision.Clock: the node has been up since the clock was made.
func (c *fakeClock) Read() clock.Reading {
	now, _ := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	level := clock.Remove
	switch {
	case c.untrusted:
		level = clock.None
	case c.one:
		level = clock.Stop
	}
	return clock.Reading{Now: now, Level: level, Uptime: time.Since(c.began)}
}

// Floor is when the bubble's time began.
func (c *fakeClock) Floor() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func (c *fakeClock) wall() time.Time {
	now, _ := c.Now()
	return now
}

func (c *fakeClock) set(offset time.Duration, trusted, removable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.untrusted, c.one = offset, !trusted, !removable
}
