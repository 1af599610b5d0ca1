package engine

import (
	"sync"
	"time"
)

// Pauses between two requests for a fetch's progress: the first doubles up to the
// last.
const (
	firstAsk = 25 * time.Millisecond
	lastAsk  = 2 * time.Second
)

// progress is the progress of fetches, by reservation. It is safe for concurrent
// use.
type progress struct {
	mu sync.Mutex
	of map[string]fetching
}

type fetching struct {
	what  string
	pause time.Duration
}

func newProgress() *progress { return &progress{of: map[string]fetching{}} }

// note notes a fetch's progress, and returns the pause until the next request.
func (p *progress) note(id, what string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := firstAsk
	if last, ok := p.of[id]; ok {
		pause = min(2*last.pause, lastAsk)
	}
	p.of[id] = fetching{what: what, pause: pause}
	return pause
}

func (p *progress) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, id)
}

// text is the progress of an ID's fetch; false when it has none.
func (p *progress) text(id string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.of[id]
	return one.what, ok
}
