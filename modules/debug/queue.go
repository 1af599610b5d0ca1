package debug

import "sync"

// The bounds of a reader's queue. The oldest lines beyond them are dropped: a reader
// that returns after an outage sees the newest.
const (
	maxQueued      = 1024
	maxQueuedBytes = 1 << 20
)

// maxTaken is how many bytes one take returns at most, unless its first line is larger.
const maxTaken = 256 << 10

// maxRaw is how many bytes of a line are kept before it is scrubbed.
const maxRaw = 64 << 10

// line is a log line, shared by all queues that hold it.
type line struct {
	raw string
	// clean returns raw scrubbed and shortened, computed once.
	clean func() string
}

// queue holds lines for one reader. Adding a line never blocks on the reader.
type queue struct {
	// came has an element when there are lines or losses to take.
	came chan struct{}

	mu    sync.Mutex
	lines []*line
	bytes int
	// lost counts the lines dropped since the last take, dropped all of them.
	lost, dropped uint64
}

func newQueue() *queue { return &queue{came: make(chan struct{}, 1)} }

// offer appends a line.
func (q *queue) offer(l *line) {
	q.mu.Lock()
	q.lines = append(q.lines, l)
	q.bytes += len(l.raw)
	for len(q.lines) > maxQueued || q.bytes > maxQueuedBytes {
		q.bytes -= len(q.lines[0].raw)
		q.lines[0] = nil
		q.lines = q.lines[1:]
		q.lost++
		q.dropped++
	}
	q.mu.Unlock()
	q.signal()
}

// lose counts lines that another queue has dropped.
func (q *queue) lose(n uint64) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	q.lost += n
	q.dropped += n
	q.mu.Unlock()
	q.signal()
}

// take removes and returns the oldest lines, at most most of them and maxTaken bytes,
// and how many lines were lost since the last take.
func (q *queue) take(most int) ([]*line, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < min(most, len(q.lines)) && (n == 0 || bytes+len(q.lines[n].raw) <= maxTaken) {
		bytes += len(q.lines[n].raw)
		n++
	}
	taken := make([]*line, n)
	copy(taken, q.lines)
	for i, l := range taken {
		q.bytes -= len(l.raw)
		q.lines[i] = nil
	}
	q.lines = q.lines[n:]
	if len(q.lines) > 0 {
		q.signal()
	} else {
		q.lines = nil
	}
	lost := q.lost
	q.lost = 0
	return taken, lost
}

func (q *queue) signal() {
	select {
	case q.came <- struct{}{}:
	default:
	}
}

// losses is how many lines were dropped in all.
func (q *queue) losses() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
