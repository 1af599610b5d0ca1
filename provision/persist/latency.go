package persist

import (
	"sync"
	"time"
)

// lastOnes is how many changes a mean latency is of.
const lastOnes = 64

// Latency is the mean time of an instance's latest changes. Its zero value has seen none. It is safe for concurrent use.
type Latency struct {
	mu   sync.Mutex
	last [lastOnes]time.Duration
	seen int
}

// Observe adds the time that one change took.
func (l *Latency) Observe(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.seen%lastOnes] = took
	l.seen++
}

// Mean is in seconds; 0 before the first change.
func (l *Latency) Mean() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(l.seen, lastOnes)
	if n == 0 {
		return 0
	}
	var sum time.Duration
	for _, took := range l.last[:n] {
		sum += took
	}
	return sum.Seconds() / float64(n)
}
