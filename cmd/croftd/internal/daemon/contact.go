package daemon

import (
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/nodestatus"
)

// contact is what is known of the way to the explorer. Whoever speaks to the
// explorer tells it how that went.
type contact struct {
	url string

	mu    sync.Mutex
	last  time.Time
	cause string
}

// tell notes one call's outcome.
func (c *contact) tell(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.cause = err.Error()
		return
	}
	c.last, c.cause = time.Now(), ""
}

// state is what an operator sees of it.
func (c *contact) state() nodestatus.Explorer {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := nodestatus.Explorer{URL: c.url, LastError: c.cause}
	if !c.last.IsZero() {
		last := c.last
		out.LastContact = &last
	}
	return out
}
