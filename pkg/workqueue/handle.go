package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/supervise"
)

// mostCause bounds the remembered text of a key's failure, in bytes.
const mostCause = 512

// idleWait is how long an idle queue sleeps without being told of a key.
const idleWait = time.Hour

// next takes the key that has been due for longest, if a worker is free. Else it says how long to wait, and
// whether nothing is due and nothing is handled.
func (q *Queue[K]) next() (key K, r *run, wait time.Duration, idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.running) >= q.cfg.Workers {
		return key, nil, idleWait, false
	}
	now := q.now()
	if key, ok := q.waiting.First(now); ok {
		r := &run{since: time.Now()}
		q.running[key] = r
		return key, r, 0, false
	}
	at, some := q.waiting.Next()
	if !some {
		return key, nil, idleWait, len(q.running) == 0
	}
	return key, nil, time.Duration(at - now), len(q.running) == 0
}

// handle handles a key.
func (q *Queue[K]) handle(ctx context.Context, key K, r *run) {
	valid := true
	err := supervise.Guard(q.cfg.Log, q.cfg.Name, func() error {
		if q.cfg.Valid != nil && !q.cfg.Valid(key) {
			valid = false
			return nil
		}
		handling, cancel := ctx, context.CancelFunc(func() {})
		if q.cfg.Deadline > 0 {
			handling, cancel = context.WithTimeout(ctx, q.cfg.Deadline)
		}
		defer cancel()
		return q.cfg.Handle(handling, key)
	})
	again, news := q.done(ctx, key, r, valid, err)
	switch {
	case news && again > 0:
		q.cfg.Log.Warn().Str("queue", q.cfg.Name).Interface("key", key).Dur("again", again).Err(err).Msg("cannot handle a key: tried again")
	case news:
		q.cfg.Log.Warn().Str("queue", q.cfg.Name).Interface("key", key).Err(err).Msg("cannot handle a key: given up")
	}
	q.nudge()
}

// done records the end of a handling. It returns when the key is handled again after a failure, and whether
// the failure is to be logged: not when it is the key's last one again.
func (q *Queue[K]) done(ctx context.Context, key K, r *run, valid bool, err error) (again time.Duration, news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, key)
	if valid {
		q.count.Runs++
	}
	now := q.now()
	failed := err != nil && ctx.Err() == nil
	if failed {
		q.count.Failures++
	}
	if failed && !r.forgotten && !q.stop {
		again = q.waiting.Retry(key, now, q.cfg.Backoff)
		cause := clip.Text(err.Error(), mostCause)
		news = q.causes[key] != cause
		q.causes[key] = cause
	} else {
		news = failed
		q.waiting.Forget(key)
		delete(q.causes, key)
	}
	if r.again == nil {
		return again, news
	}
	if at, waits := q.waiting.At(key); !waits || *r.again < at {
		q.waiting.Set(key, 0, *r.again)
	}
	return again, news
}

// close takes no more keys, and drops those that aren't due yet.
func (q *Queue[K]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop = true
	now := q.now()
	q.waiting.DropUnless(func(key K) bool {
		at, waits := q.waiting.At(key)
		return waits && at <= now
	})
	for _, r := range q.running {
		if r.again != nil && *r.again > now {
			r.again = nil
		}
	}
}

// await returns once the handlers have returned, or with an error when one doesn't.
func (q *Queue[K]) await(workers *sync.WaitGroup) error {
	returned := make(chan struct{})
	go func() {
		workers.Wait()
		close(returned)
	}()
	late := time.NewTimer(abandon)
	defer late.Stop()
	select {
	case <-returned:
		return nil
	case <-late.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, r := range q.running {
		return errors.Errorf("cannot stop the queue %s: the handling of %v, which began %s ago, doesn't end", q.cfg.Name, key, time.Since(r.since).Round(time.Second))
	}
	return nil
}
