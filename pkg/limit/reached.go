package limit

import (
	"maps"
	"sync"
)

var reached = struct {
	sync.Mutex
	times map[string]uint64
}{times: map[string]uint64{}}

// Reached counts that l has turned something away in this process. Shares call it
// themselves.
func (l Limit) Reached() { Add(l.Name, 1) }

// Add counts n more cases in which the limit of that name turned something away, from
// the counts of another process of the node.
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
