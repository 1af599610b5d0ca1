package limit

import (
	"maps"
	"sync"
)

var reached = struct {
	sync.Mutex
	times map[string]uint64
}{times: map[string]uint64{}}

// Reached counts that l has turned something away in this process. Shares do it
// by themselves.
func (l Limit) Reached() { Add(l.Name, 1) }

// Add counts n times more that the limit of a name has turned something away: what
// another process of the node has counted.
func Add(name string, n uint64) {
	reached.Lock()
	defer reached.Unlock()
	reached.times[name] += n
}

// Times returns how often each limit has turned something away, by name, since the
// process began.
func Times() map[string]uint64 {
	reached.Lock()
	defer reached.Unlock()
	return maps.Clone(reached.times)
}
