package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Config holds the parts and settings of a queue.
type Config[K comparable] struct {
	// Name is for log lines and errors.
	Name string
	// Handle handles a key. Its error has the key handled again after a backoff; so has its panic. It is
	// never called twice at a time for one key.
	Handle func(ctx context.Context, key K) error
	// Valid reports whether a key is still of interest; one that isn't is dropped instead of handled. nil
	// is yes for all.
	Valid func(key K) bool
	// Workers is how many keys are handled at a time; 0 is one.
	Workers int
	// Most bounds the keys in the queue, those being handled included; 0 is no bound.
	Most int
	// Deadline bounds one handling; 0 is none. A handler that goes on after it keeps its worker, and its
	// key is handled again only after it has returned.
	Deadline time.Duration
	// Backoff is the wait after failures in a row; the zero value is supervise.DefaultBackoff.
	Backoff backoff.Backoff
	// Drain is how long keys that are due, and those being handled, may take after Run was told to stop; 0
	// ends the handlers in progress at once.
	Drain time.Duration
	Log   zerolog.Logger
}

// Validate names the missing and wrong fields.
func (c Config[K]) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("cannot make a queue: Name is empty, it must be set")
	case c.Handle == nil:
		return errors.Errorf("cannot make the queue %s: Handle is nil, it must be set", c.Name)
	case c.Workers < 0 || c.Most < 0:
		return errors.Errorf("cannot make the queue %s: Workers is %d and Most %d, neither may be negative", c.Name, c.Workers, c.Most)
	case c.Deadline < 0 || c.Drain < 0:
		return errors.Errorf("cannot make the queue %s: Deadline is %s and Drain %s, neither may be negative", c.Name, c.Deadline, c.Drain)
	}
	return nil
}

// abandon is how long a handler whose context is done may take to return before Run stops waiting for it.
const abandon = 5 * time.Second

// Queue runs a handler for each of its keys. It is safe for concurrent use.
type Queue[K comparable] struct {
	cfg  Config[K]
	wake chan struct{}
	// began is the zero of the schedule's times.
	began time.Time

	mu      sync.Mutex
	waiting *Schedule[K]
	running map[K]*run
	// causes are the last failures of failing keys, for log lines and dumps.
	causes map[K]string
	stop   bool
	count  Counts
}

// run is a handling in progress.
type run struct {
	since time.Time
	// again is when its key is due again, if it was added meanwhile.
	again *int64
	// forgotten is whether its failure is of no interest any more.
	forgotten bool
}

// New makes a queue. Keys may be added before Run.
func New[K comparable](c Config[K]) (*Queue[K], error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Workers == 0 {
		c.Workers = 1
	}
	if c.Backoff == (backoff.Backoff{}) {
		c.Backoff = supervise.DefaultBackoff()
	}
	return &Queue[K]{
		cfg: c, wake: make(chan struct{}, 1), began: time.Now(),
		waiting: NewSchedule[K](nil), running: map[K]*run{}, causes: map[K]string{},
	}, nil
}

func (q *Queue[K]) now() int64 { return int64(time.Since(q.began)) }

// Add has a key handled: now, or at once after the handling in progress. A key that waits already isn't
// added twice. It reports whether the key is in the queue: it isn't once the queue is full or stops.
func (q *Queue[K]) Add(key K) bool { return q.AddAfter(key, 0) }

// AddAfter is Add after a delay. A key that is due sooner stays so, and isn't handled a second time after
// the delay: a handler that finds it too early adds its key again.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) bool {
	defer q.nudge()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.now() + int64(max(delay, 0))
	if r := q.running[key]; r != nil && !q.stop {
		if r.again == nil || *r.again > at {
			r.again = &at
		}
		r.forgotten = false
		return true
	}
	was, waits := q.waiting.At(key)
	switch {
	case q.stop:
		q.count.Dropped++
		return false
	case waits:
		if at < was {
			q.waiting.Set(key, 0, at)
		}
	case q.cfg.Most > 0 && q.waiting.Len()+len(q.running) >= q.cfg.Most:
		q.count.Dropped++
		return false
	default:
		q.waiting.Set(key, 0, at)
	}
	return true
}

// Forget drops a key that waits, and its failures. A handling in progress goes on, and isn't repeated when it
// fails.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Drop(key)
	delete(q.causes, key)
	if r := q.running[key]; r != nil {
		r.again, r.forgotten = nil, true
	}
}

func (q *Queue[K]) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run handles keys until ctx is done. Then it takes no new keys, handles those that are due, in order,
// for as long as Drain says, ends the handlers in progress, and returns once they have returned. It may be
// called once. Its error names a handler that doesn't return.
func (q *Queue[K]) Run(ctx context.Context) error {
	handling, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var workers sync.WaitGroup
	q.dispatch(handling, &workers, ctx.Done(), false)
	q.close()
	if q.cfg.Drain > 0 {
		draining, late := context.WithTimeout(handling, q.cfg.Drain)
		q.dispatch(handling, &workers, draining.Done(), true)
		late()
	}
	end()
	return q.await(&workers)
}

// dispatch gives due keys to workers until done, or, if it drains, until nothing is due and all workers are
// idle.
func (q *Queue[K]) dispatch(ctx context.Context, workers *sync.WaitGroup, done <-chan struct{}, drains bool) {
	for {
		select {
		case <-done:
			return
		default:
		}
		key, r, wait, idle := q.next()
		if r != nil {
			workers.Go(func() { q.handle(ctx, key, r) })
			continue
		}
		if drains && idle {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-done:
		case <-q.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}
