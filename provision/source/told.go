package source

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

const (
	// silent is how long a stream of changes may be silent before it counts as cut.
	silent = 3*node.ChangesEvery + time.Second
	// mostTold bounds the IDs that wait for a look at their type.
	mostTold = 4 * node.ChangesMost
)

// inbox is what streams have told of one type, and what isn't looked at yet. It is safe
// for concurrent use.
type inbox struct {
	mu  sync.Mutex
	ids map[string]struct{}
	all bool
	// streams is the number of the type's streams, live of those that are unbroken.
	streams, live int
	// woken has a token when something has changed here.
	woken chan struct{}
}

func newInbox(streams int) *inbox {
	return &inbox{ids: map[string]struct{}{}, streams: streams, woken: make(chan struct{}, 1)}
}

// change changes it, and wakes the type's watch.
func (b *inbox) change(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// tell adds IDs; when they are too many, everything has to be looked at.
func (b *inbox) tell(ids []string) {
	if len(ids) == 0 {
		return
	}
	b.change(func() {
		for _, id := range ids {
			if b.all {
				return
			}
			b.ids[id] = struct{}{}
			if len(b.ids) > mostTold {
				b.loseAll()
			}
		}
	})
}

// lose says that everything has to be looked at.
func (b *inbox) lose() { b.change(b.loseAll) }

func (b *inbox) loseAll() {
	b.all = true
	clear(b.ids)
}

// joined and left count unbroken streams.
func (b *inbox) joined() { b.change(func() { b.live++ }) }
func (b *inbox) left()   { b.change(func() { b.live-- }) }

// state is what waits for a look, and whether all streams are unbroken.
func (b *inbox) state() (some, all, vouched bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ids) > 0, b.all, b.streams > 0 && b.live == b.streams
}

// take takes what waits: IDs, or that everything has to be looked at.
func (b *inbox) take() (ids []string, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.ids {
		ids = append(ids, id)
	}
	all = b.all
	b.all = false
	clear(b.ids)
	return ids, all
}

// ear listens to one stream for the types that it is of.
type ear struct {
	from provisioner.Changes
	to   []*inbox
	log  zerolog.Logger
}

// run listens until ctx is done, and begins again after each end of the stream.
func (e *ear) run(ctx context.Context, _ chan<- Item) error {
	retry := backoff.Backoff{Base: 200 * time.Millisecond, Max: 10 * time.Second}
	for failures, told := 0, false; ctx.Err() == nil; {
		heard, err := e.listen(ctx)
		if heard {
			failures, told = 0, false
		}
		failures++
		if ctx.Err() == nil && !told && (heard || failures > 3) {
			e.log.Warn().Str("step", "drift").Err(err).Msg("a module's stream of changes is cut: its workloads are looked at more often until it is back")
			told = true
		}
		wait(ctx, retry.Delay(failures))
	}
	return ctx.Err()
}

// listen listens until the stream is cut. heard is whether it lived: a bus may greet a reader with the last value of a module
// that is gone, so that only another value shows that the module is there.
func (e *ear) listen(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := e.from.Changes(ctx)
	if err != nil {
		return false, errors.Wrap(err, "cannot listen to changes")
	}
	defer func() {
		if heard {
			e.each((*inbox).left)
		}
	}()
	quiet := time.NewTimer(silent)
	defer quiet.Stop()
	for last := (node.Change{}); ; {
		select {
		case <-ctx.Done():
			return heard, ctx.Err()
		case <-quiet.C:
			return heard, errors.Errorf("cannot hear changes: nothing came for %s", silent)
		case now, open := <-in:
			if !open {
				return heard, errors.New("cannot hear changes: the stream has ended")
			}
			quiet.Reset(silent)
			if lives := last.Number != 0 && !repeats(now, last); lives && !heard {
				heard = true
				e.each((*inbox).joined)
			}
			e.hear(last, now)
			last = now
		}
	}
}

// repeats reports whether a value is the one before it again.
func repeats(now, last node.Change) bool {
	return now.Stream == last.Stream && now.Number == last.Number
}

// hear handles a value that came after another one; last is zero for the first.
func (e *ear) hear(last, now node.Change) {
	if now.Lost || now.Stream != last.Stream || last.Number == 0 || !repeats(now, last) && now.Number != last.Number+1 {
		e.each((*inbox).lose)
		return
	}
	e.each(func(b *inbox) { b.tell(now.IDs) })
}

func (e *ear) each(f func(*inbox)) {
	for _, b := range e.to {
		f(b)
	}
}
