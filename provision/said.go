package provision

import (
	"time"

	"github.com/rs/zerolog"
)

const (
	// saidMost bounds what is remembered of what was said.
	saidMost = 1024
	// saidPerMinute bounds the lines in a minute.
	saidPerMinute = 60
)

// saidOnce keeps senders of junk from filling the log: each thing is said once,
// until so much else was said that it is forgotten, and only so many in a minute.
type saidOnce struct {
	seen   map[string]bool
	minute time.Time
	lines  int
}

func newSaidOnce() *saidOnce { return &saidOnce{seen: map[string]bool{}} }

// log returns event the first time that key comes, else nothing (a nil event
// swallows what it is given). For the engine's thread only.
func (s *saidOnce) log(event *zerolog.Event, key string) *zerolog.Event {
	key = short(key)
	if s.seen[key] {
		event.Discard()
		return nil
	}
	if len(s.seen) >= saidMost {
		clear(s.seen)
	}
	s.seen[key] = true
	if now := time.Now(); now.Sub(s.minute) >= time.Minute {
		s.minute, s.lines = now, 0
	}
	if s.lines++; s.lines > saidPerMinute {
		event.Discard()
		return nil
	}
	return event
}
