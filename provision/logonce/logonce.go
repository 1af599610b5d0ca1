// Package logonce logs each message once, and at most 60 in a minute, so that
// senders of junk can't fill the log. It owns the keys of logged messages.
package logonce

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// most is the largest number of keys that are kept.
	most = 1024
	// perMinute is the largest number of lines in a minute.
	perMinute = 60
	// keyLength is how much of a key is kept, in bytes.
	keyLength = 256
)

// Once knows which messages were logged. It is safe for concurrent use.
type Once struct {
	mu     sync.Mutex
	seen   map[string]bool
	minute time.Time
	lines  int
}

// New makes a Once that has logged nothing.
func New() *Once { return &Once{seen: map[string]bool{}} }

// Log returns event for the first message of a key, until so many others were
// logged that the key is forgotten. For a later message it returns nil (a nil event
// logs nothing). So it does beyond 60 lines in a minute: such a message doesn't count
// as logged.
func (o *Once) Log(event *zerolog.Event, key string) *zerolog.Event {
	if o.first(key[:min(len(key), keyLength)], time.Now()) {
		return event
	}
	event.Discard()
	return nil
}

// first reports whether the message of key is to be logged now, and counts it as logged then.
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
