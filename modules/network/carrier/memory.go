package carrier

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The defaults of how much memory a carrier may use, in bytes.
const (
	DefaultGarbage   = 24 << 20
	DefaultHardLimit = 256 << 20
)

// collector has the garbage collector run whenever there is so much garbage, however much there is
// that isn't: a network has some 8 MiB of buffers and tables that are never garbage, most of which
// no packet ever touches. Without it a carrier of many would hold as much garbage again; with a limit
// of all memory instead it would collect without end, and find nothing.
type collector struct {
	// garbage is in bytes.
	garbage uint64

	mu  sync.Mutex
	now int
}

// look sets how often garbage is collected, by what there was when it was last.
func (c *collector) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := c.percent(live[0].Value.Uint64()); percent != c.now {
		debug.SetGCPercent(percent)
		c.now = percent
	}
}

// percent is how much garbage there may be for what isn't, in bytes.
func (c *collector) percent(live uint64) int {
	return int(min(100, max(1, 100*c.garbage/max(1, live))))
}
