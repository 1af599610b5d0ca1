package monitor

import (
	"context"
	"sync"
	"time"
)

// reading caches the last value read, which the streams of both object versions share
// instead of reading it twice.
type reading[T any] struct {
	read func(context.Context) (T, error)

	mu   sync.Mutex
	at   time.Time
	last T
}

// get returns the cached value if it is younger than age, otherwise reads a new one. A
// failure isn't cached. The returned value is never changed.
func (r *reading[T]) get(ctx context.Context, age time.Duration) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < age {
		return r.last, nil
	}
	v, err := r.read(ctx)
	if err == nil {
		r.at, r.last = time.Now(), v
	}
	return v, err
}

// age limits the age of a reading that a stream yields: less than an interval, so that
// it never yields the same reading twice.
func (m *Module) age() time.Duration { return m.cfg.Interval / 2 }
