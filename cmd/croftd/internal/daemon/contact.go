package daemon

import (
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/resources/host"
)

// contact remembers the outcome of the last calls to the explorer.
type contact struct {
	url     string
	changed kick

	mu    sync.Mutex
	last  time.Time
	cause string
}

// tell records one call's outcome.
func (c *contact) tell(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.kick()
	if err != nil {
		c.cause = err.Error()
		return
	}
	c.last, c.cause = time.Now(), ""
}

// state is the contact as the status shows it.
func (c *contact) state() host.ExplorerSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := host.ExplorerSpec{URL: c.url, LastError: c.cause}
	if !c.last.IsZero() {
		last := c.last
		out.LastContact = &last
	}
	return out
}
