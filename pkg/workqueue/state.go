package workqueue

import (
	"cmp"
	"slices"
	"time"
)

// Counts are counted since New.
type Counts struct {
	// Runs are the handlings that ended, Failures those that failed. Dropped are keys that weren't added
	// because the queue was full or stopped.
	Runs     uint64 `json:"runs"`
	Failures uint64 `json:"failures"`
	Dropped  uint64 `json:"dropped"`
}

// State is what a queue holds.
type State[K comparable] struct {
	Name string `json:"name"`
	// Waiting are keys that wait, Running those being handled, Failing those whose last handling failed.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	Failing int `json:"failing"`
	// Oldest is how long the key that was due first has been due, or handled.
	Oldest time.Duration `json:"oldest"`
	Counts
	// Keys come in the order in which they are due, those being handled first.
	Keys []KeyState[K] `json:"keys"`
}

// KeyState is a key of a queue.
type KeyState[K comparable] struct {
	Key K `json:"key"`
	// Running is whether it is being handled. For is how long it has been handled or due; it is negative
	// before it is due.
	Running bool          `json:"running,omitempty"`
	For     time.Duration `json:"for"`
	// Failures is how often it failed in a row, Cause the last failure.
	Failures int    `json:"failures,omitempty"`
	Cause    string `json:"cause,omitempty"`
}

// State returns what the queue holds.
func (q *Queue[K]) State() State[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := State[K]{
		Name: q.cfg.Name, Waiting: q.waiting.Len(), Running: len(q.running), Failing: q.waiting.Failing(), Counts: q.count,
		Keys: make([]KeyState[K], 0, q.waiting.Len()+len(q.running)),
	}
	add := func(key K, running bool, since time.Duration) {
		out.Oldest = max(out.Oldest, since)
		out.Keys = append(out.Keys, KeyState[K]{Key: key, Running: running, For: since, Failures: q.waiting.Failures(key), Cause: q.causes[key]})
	}
	for key, r := range q.running {
		add(key, true, time.Since(r.since))
	}
	now := q.now()
	for key, at := range q.waiting.All() {
		add(key, false, time.Duration(now-at))
	}
	slices.SortStableFunc(out.Keys, func(a, b KeyState[K]) int {
		if a.Running != b.Running {
			if a.Running {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.For, a.For)
	})
	return out
}
