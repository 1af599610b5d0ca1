// Package logonce keeps senders of junk from filling the log: each thing is said
// once, and only so many in a minute. It owns what it remembers, nothing else.
package logonce

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// most bounds what is remembered of what was said.
	most = 1024
	// perMinute bounds the lines in a minute.
	perMinute = 60
	// keyLength bounds what is remembered of one key, in bytes.
	keyLength = 256
)

// Once remembers what was logged. It is safe for concurrent use.
type Once struct {
	mu     sync.Mutex
	seen   map[string]bool
	minute time.Time
	lines  int
}

// New makes a Once that has logged nothing.
func New() *Once { return &Once{seen: map[string]bool{}} }

// Log returns event the first time that key comes, until so much else was
// logged that key is forgotten. Otherwise it returns nothing (a nil event
// swallows what it is given), as it does for more than 60 lines in a minute:
// those don't count as logged, and are when their key comes again later.
func (o *Once) Log(event *zerolog.Event, key string) *zerolog.Event {
	if o.first(key[:min(len(key), keyLength)], time.Now()) {
		return event
	}
	event.Discard()
	return nil
}

// first reports whether key is to be logged now, and takes it for logged then.
func (o *Once) first(key string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		return false
	}
	if now.Sub(o.minute) >= time.Minute {
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
