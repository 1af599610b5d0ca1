package provision

import "github.com/rs/zerolog"

// saidMost bounds what is remembered of what was said.
const saidMost = 1024

// saidOnce keeps senders of junk from filling the log: each thing is said once,
// then only at debug level, until so much else was said that it is forgotten.
type saidOnce struct {
	seen map[string]bool
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
	return event
}
