package loop

// Stats is what a loop has done, and what it has now.
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

// Stats returns what was counted up to the last round. It may be called from any
// goroutine.
func (l *Loop) Stats() Stats {
	l.published.Lock()
	defer l.published.Unlock()
	return l.published.Stats
}

func (l *Loop) publish() {
	l.count.Connections, l.count.Buffers = int64(l.connections), l.buffers
	l.published.Lock()
	l.published.Stats = l.count
	l.published.Unlock()
}
