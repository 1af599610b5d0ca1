package bus

import (
	"sync"

	"github.com/croft-edge/croft/pkg/bus/redis"
	"github.com/croft-edge/croft/pkg/bus/transport"
)

// Readers is the number of streams of all clients on the bus of c.
func (c *Client) Readers() int {
	switch b := c.bus.(type) {
	case *InProcess:
		return count(&b.mu, b.feeds)
	case *redis.Bus:
		return b.Readers()
	}
	panic("a bus that is not known here")
}

func count(mu sync.Locker, all transport.Feeds) int {
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, readers := range all {
		n += len(readers)
	}
	return n
}
