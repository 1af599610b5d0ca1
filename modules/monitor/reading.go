package monitor

import (
	"context"
	"sync"
	"time"
)

// reading is what was read last, for the streams of both versions: what one has just
// read, the other doesn't read again.
type reading[T any] struct {
	read func(context.Context) (T, error)

	mu   sync.Mutex
	at   time.Time
	last T
}

// get reads, unless what there is isn't older than that. A failure isn't remembered. What
// it returns is never changed.
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

// age is how old a reading may be that a stream yields: less than an interval, so that
// each is another one.
func (m *Module) age() time.Duration { return m.cfg.Interval / 2 }
