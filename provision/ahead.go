package provision

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// How long until what is being got for a reservation is asked for again: the
// first pause doubles up to the last.
const (
	firstAsk = 25 * time.Millisecond
	lastAsk  = 2 * time.Second
)

// waitsFor is the cause of a record that waits for what is being got for it.
const waitsFor = "what it needs is being fetched"

// prepare asks for what must be there before rec is provisioned. While it isn't,
// the record waits with a timer, others are handled, and it returns true: an
// attempt hasn't begun. What failed counts as one.
func (e *NodeEngine) prepare(ctx context.Context, rec store.Record) (waits bool, err error) {
	id, t := rec.ID(), rec.Reservation.Type
	p, ok := e.provisioners[t].(provisioner.Preparer)
	if !ok {
		return false, nil
	}
	var progress provisioner.Progress
	start := time.Now()
	err = e.step(ctx, "prepare", id, e.limits.Judge, func(ctx context.Context) (err error) {
		progress, err = p.Prepare(ctx, rec.Reservation)
		return err
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return true, nil // the node is stopping, and nothing has begun
	case err != nil:
		e.noteSlow(t, time.Since(start) >= e.limits.Judge)
		e.fetches.forget(id)
		e.log.Info().Str("id", id).Str("type", string(t)).Str("step", "prepare").Err(err).Msg("attempt ended")
		rec.Attempts++
		return true, e.provisioned(rec, nil, err)
	case progress.Ready:
		e.fetches.forget(id)
		return false, nil
	}
	pause := e.fetches.note(id, progress.What)
	if rec.Phase != store.Retry || rec.Cause != waitsFor {
		rec.Phase, rec.Cause, rec.NextAttempt = store.Retry, waitsFor, time.Time{}
		if wasDeployed(rec) {
			rec.Attempts = max(rec.Attempts, 1) // it isn't judged again
		}
		if err := e.finish(rec); err != nil {
			return true, err
		}
	}
	e.retries.Set(id, t, time.Now().Add(pause))
	return true, nil
}

// unbegun reports whether nothing was ever done for rec, so that nothing has to
// be taken down.
func (e *NodeEngine) unbegun(rec store.Record) bool {
	if rec.Phase == store.Failed {
		return true
	}
	_, prepares := e.provisioners[rec.Reservation.Type].(provisioner.Preparer)
	return rec.Phase == store.Retry && rec.Attempts == 0 && !prepares
}

// fetches is what is being got ahead of the engine, by reservation. It is safe
// for concurrent use.
type fetches struct {
	mu sync.Mutex
	of map[string]fetch
}

type fetch struct {
	what  string
	pause time.Duration
}

func newFetches() *fetches { return &fetches{of: map[string]fetch{}} }

// note notes how far it is, and returns when to ask again.
func (f *fetches) note(id, what string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause := firstAsk
	if last, ok := f.of[id]; ok {
		pause = min(2*last.pause, lastAsk)
	}
	f.of[id] = fetch{what: what, pause: pause}
	return pause
}

func (f *fetches) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, id)
}

// text is how far it is, and whether anything is being got for that ID.
func (f *fetches) text(id string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.of[id]
	return one.what, ok
}
