package limit

import (
	"maps"
	"sync"
)

// Elsewhere counts in this process what another process of the node has counted. Its
// zero value is ready to be used, by several goroutines.
type Elsewhere struct {
	mu     sync.Mutex
	before map[string]uint64
}

// Seen takes in what Times returns in the other process; nil says nothing. Where a
// number went down, that process was started again.
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
