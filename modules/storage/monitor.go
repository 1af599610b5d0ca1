package storage

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// lookEvery is the pause between two readings of the pools' use.
	lookEvery = 5 * time.Second
	// repeatEvery is the longest silence about a pool.
	repeatEvery = time.Minute
)

// signal wakes any number of waiters after a change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// wait returns a channel that is closed at the next change.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// monitor streams the use of each pool that works. The channel is closed when
// ctx ends or the module is closed.
func (m *Module) monitor(ctx context.Context) <-chan node.PoolUse {
	out := make(chan node.PoolUse)
	w := watch{read: m.use, changed: m.changed, closed: m.closed, out: out}
	go w.run(ctx)
	return out
}

// use reads the use of all pools that work. What is promised on a pool, in bytes, is taken from reserved, by the pool's name; where that
// lacks it, it is summed up, which reads the labels of all that the pool has.
func (m *Module) use(reserved map[string]uint64) []node.PoolUse {
	var uses []node.PoolUse
	for _, p := range m.pools {
		space, err := p.space()
		sum, known := reserved[p.name]
		if err == nil && !known {
			sum, err = p.reserved()
		}
		if err != nil {
			continue
		}
		reserved[p.name] = sum
		uses = append(uses, node.PoolUse{Name: p.name, Total: space.Total, Used: space.Used, Reserved: sum})
	}
	return uses
}

// watch is one reader's stream.
type watch struct {
	read    func(reserved map[string]uint64) []node.PoolUse
	changed *signal
	closed  <-chan struct{}
	out     chan<- node.PoolUse
}

func (w watch) run(ctx context.Context) {
	defer close(w.out)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	last, told := map[string]node.PoolUse{}, map[string]time.Time{}
	// What is promised changes only with what the module does; it is summed up from time to time all the same.
	reserved, summed, changed := map[string]uint64{}, time.Now(), w.changed.wait()
	for {
		for _, use := range w.read(reserved) {
			if use == last[use.Name] && time.Since(told[use.Name]) < repeatEvery {
				continue
			}
			if !w.send(ctx, use) {
				return
			}
			last[use.Name], told[use.Name] = use, time.Now()
		}
		again := false
		select {
		case <-look.C:
			again = time.Since(summed) > repeatEvery
		case <-changed:
			// Taken before the reading: a change during it is seen in the next.
			again, changed = true, w.changed.wait()
		case <-ctx.Done():
			return
		case <-w.closed:
			return
		}
		if again {
			reserved, summed = map[string]uint64{}, time.Now()
		}
	}
}

func (w watch) send(ctx context.Context, use node.PoolUse) bool {
	select {
	case w.out <- use:
		return true
	case <-ctx.Done():
	case <-w.closed:
	}
	return false
}
