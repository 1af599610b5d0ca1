package limit

import (
	"maps"
	"sync"
)

// Elsewhere adds the counts of another process of the node to this one's. Its
// zero value is ready to be used, by several goroutines.
type Elsewhere struct {
	mu     sync.Mutex
	before map[string]uint64
}

// Seen takes the result of Times in the other process; nil is ignored. A lower
// number means that that process was restarted.
func (e *Elsewhere) Seen(times map[string]uint64) {
	if times == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, n := range times {
		before := e.before[name]
		if n < before {
			before = 0
		}
		if n > before {
			Add(name, n-before)
		}
	}
	e.before = maps.Clone(times)
}
