// Package said keeps senders of junk from filling the log.
package said

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// most bounds what is remembered of what was logged.
	most = 1024
	// perMinute bounds the lines in a minute.
	perMinute = 60
	// longest bounds a key.
	longest = 128
)

// Once logs each thing once, until so much else was logged that it is forgotten,
// and only so many lines in a minute. It is safe for concurrent use.
type Once struct {
	mu     sync.Mutex
	seen   map[string]bool
	minute time.Time
	lines  int
}

// New makes a Once that has logged nothing.
func New() *Once { return &Once{seen: map[string]bool{}} }

// Log returns event the first time that key comes, else nil, which swallows what
// it is given. A line that the limit swallows isn't logged: its key may come again.
func (o *Once) Log(event *zerolog.Event, key string) *zerolog.Event {
	if !o.may(key) {
		event.Discard()
		return nil
	}
	return event
}

func (o *Once) may(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(key) > longest {
		key = key[:longest]
	}
	if o.seen[key] {
		return false
	}
	if now := time.Now(); now.Sub(o.minute) >= time.Minute {
		o.minute, o.lines = now, 0
	}
	if o.lines >= perMinute {
		return false
	}
	o.lines++
	if len(o.seen) >= most {
		clear(o.seen)
	}
	o.seen[key] = true
	return true
}
