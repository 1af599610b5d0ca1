package loop

import (
	"sync"
	"time"
)

// Stats is a loop's counters and sizes.
type Stats struct {
	// Connections is how many there are, Buffers how many bytes their buffers have.
	Connections, Buffers int64
	// Accepted connections came in. Refused ones were too many. AcceptErrors is how
	// often accepting failed, for instance for want of file descriptors.
	Accepted, Refused, AcceptErrors uint64
	// Requests have run; Malformed ones were no requests, or too large.
	Requests, Malformed uint64
	// Received and Sent are bytes.
	Received, Sent uint64
	// Evicted connections were closed because of MaxBuffers, Idled ones because of
	// Idle or Silence, Unflushed ones because Flush failed, Stalled ones because they
	// took too long over a request or a reply, Displaced ones for others.
	Evicted, Idled, Unflushed, Stalled, Displaced uint64
	// Rounds is how often the loop went round.
	Rounds uint64
}

// round is the state of the present round that the loop's parts share.
type round struct {
	now   time.Time // when it began
	tick  time.Time // when Tick is called next, at the latest
	count Stats     // counted so far; without Connections and Buffers
}

// published is a copy of the counters for other goroutines.
type published struct {
	mu    sync.Mutex
	stats Stats
}

func (p *published) set(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = s
}

func (p *published) get() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
