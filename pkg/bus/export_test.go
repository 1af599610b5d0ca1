package bus

import "sync"

// Readers is how many streams of all clients the bus of c holds.
func (c *Client) Readers() int {
	switch b := c.bus.(type) {
	case *InProcess:
		return count(&b.mu, b.feeds)
	case *Redis:
		return count(&b.streams.mu, b.streams.feeds)
	}
	panic("a bus that is not known here")
}

func count(mu sync.Locker, all feeds) int {
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, readers := range all {
		n += len(readers)
	}
	return n
}
