package plane

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/store"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/supervise"
)

// behindPause is the time between two transactions.
const behindPause = time.Second

// behind is a backing store that writes to a bbolt database beside its callers: all that has changed meanwhile by one
// durable transaction, and of each resource its newest content only. What can't be written, such as on a full disk, is tried again.
//
// A journal gets each change at once, so that a process that is killed loses nothing. A machine that loses its power loses what wasn't in a
// transaction yet.
//
// A database that was damaged while it was open, which shows itself by a panic of bbolt, keeps bbolt's locks: it isn't touched any more, and what
// happens is in memory alone until the next start.
type behind struct {
	// BackingStore reads the database; what is written here has its layout: a bucket for the namespace, in it one for each type. The
	// namespace's sequence is the number of the last change that the database has.
	inmem.BackingStore
	db        *bbolt.DB
	namespace resource.Namespace
	seal      store.Marshaler
	log       zerolog.Logger
	wake      chan struct{}
	// close writes what is pending, and ends.
	close func()
	// journal has what isn't in the database; nil where there can't be one.
	journal *journal

	mu sync.Mutex
	changes
	// broken is whether the database isn't used any more.
	broken bool
}

// newBehind makes the store of a namespace. What an earlier process has left in the journal is in the database when it returns, unless that can't be
// written now. An error is a panic of bbolt: then the database must not even be closed.
func newBehind(db *bbolt.DB, ns resource.Namespace, reads inmem.BackingStore, seal store.Marshaler, log zerolog.Logger) (*behind, error) {
	b := &behind{BackingStore: reads, db: db, namespace: ns, seal: seal, log: log, wake: make(chan struct{}, 1), changes: newChanges()}
	if err := b.catchUp(); err != nil {
		return nil, err
	}
	quit, ended, noted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.close = sync.OnceFunc(func() {
		close(quit)
		<-noted
	})
	go supervise.Do(log, "history", func() {
		defer close(ended)
		b.run(quit)
	})
	go supervise.Do(log, "journal of the history", func() {
		defer close(noted)
		b.keepJournal(ended)
	})
	b.rouseJournal()
	return b, nil
}

// catchUp writes what the journal has and the database hasn't. Contents of another key are left out.
func (b *behind) catchUp() error {
	err := b.guarded(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			if all := tx.Bucket([]byte(b.namespace)); all != nil {
				b.number, b.stored = all.Sequence(), all.Sequence()
			}
			return nil
		})
	})
	if err == nil {
		if err = b.replayJournal(); err == nil {
			err = b.flush()
		}
	}
	if !b.usable() {
		if b.journal != nil {
			_ = b.journal.file.Close()
		}
		return errors.New("the history is damaged: the events of its journal can't be written to it")
	}
	if err != nil {
		b.log.Error().Err(err).Str("step", "event").Msg("cannot write the last events of before now: tried again with the next ones")
	}
	return nil
}

// unreadJournal is more changes than a journal has: a later process that can read it must not take its entries for newer ones.
const unreadJournal = 1 << 32

// replayJournal opens the journal, and makes its changes pending.
func (b *behind) replayJournal() error {
	j, left, err := openJournal(b.db.Path() + ".journal")
	if err != nil {
		b.log.Error().Err(err).Str("step", "event").Msg("there is no journal of the history: events that aren't written yet are lost when the process is killed")
		b.number += unreadJournal
		return nil
	}
	b.journal = j
	for _, e := range left {
		if e.Number <= b.stored {
			continue
		}
		if e.Sealed != nil {
			if _, err := b.seal.UnmarshalResource(e.Sealed); err != nil {
				continue
			}
		}
		b.replay(e)
	}
	return nil
}

// guarded uses the database. After a panic it isn't used any more.
func (b *behind) guarded(f func() error) error {
	err := supervise.Guard(b.log, "history", func() error {
		defer faults()()
		return f()
	})
	b.broke(err)
	return err
}

// Load implements inmem.BackingStore. What is pending counts as if it were in the database.
func (b *behind) Load(ctx context.Context, handle inmem.LoadHandler) error {
	b.mu.Lock()
	newer, broken := maps.Clone(b.pending), b.broken
	b.mu.Unlock()
	if broken {
		return nil
	}
	err := b.guarded(func() error {
		return b.BackingStore.Load(ctx, func(kind resource.Type, r resource.Resource) error {
			at := place{kind, r.Metadata().ID()}
			b.mu.Lock()
			b.filed[at] = true
			b.mu.Unlock()
			if _, is := newer[at]; is {
				return nil
			}
			return handle(kind, r)
		})
	})
	if !b.usable() {
		return nil
	}
	for at, is := range newer {
		if err != nil || is.sealed == nil {
			continue
		}
		var r resource.Resource
		if r, err = b.seal.UnmarshalResource(is.sealed); err == nil {
			err = handle(at.kind, r)
		}
	}
	return err
}

// broke reports whether an error is a panic, after which the database isn't used any more.
func (b *behind) broke(err error) bool {
	var panicked *supervise.Panic
	if !errors.As(err, &panicked) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
	b.changes = newChanges()
	b.log.Error().Str("step", "event").Msg("the history's file was damaged while it was open: events are kept in memory until the next start")
	return true
}

// usable reports whether the database may be touched.
func (b *behind) usable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.broken
}

// Put implements inmem.BackingStore.
func (b *behind) Put(_ context.Context, kind resource.Type, r resource.Resource) error {
	sealed, err := b.seal.MarshalResource(r)
	if err != nil {
		return errors.Wrap(err, "cannot seal a resource")
	}
	b.change(func() { b.put(place{kind, r.Metadata().ID()}, sealed) })
	return nil
}

// Destroy implements inmem.BackingStore.
func (b *behind) Destroy(_ context.Context, kind resource.Type, p resource.Pointer) error {
	b.change(func() { b.remove(place{kind, p.ID()}) })
	return nil
}

// change makes a change, and has it written.
func (b *behind) change(f func()) {
	b.mu.Lock()
	if !b.broken {
		f()
	}
	if b.journal == nil {
		b.noted()
	}
	b.mu.Unlock()
	rouse(b.wake)
	b.rouseJournal()
}

func (b *behind) rouseJournal() {
	if b.journal != nil {
		rouse(b.journal.wake)
	}
}

func rouse(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run writes until quit is closed, then once more.
func (b *behind) run(quit <-chan struct{}) {
	again := backoff.Backoff{Base: time.Second, Max: time.Minute}
	failures := 0
	for {
		select {
		case <-b.wake:
		case <-quit:
			if err := b.flush(); err != nil {
				b.log.Error().Err(err).Str("step", "event").Msg("the last events can't be written: the next start finds them in the journal of the history")
			}
			return
		}
		pause := behindPause
		if err := b.flush(); err != nil {
			if failures == 0 {
				b.log.Error().Err(err).Str("step", "event").Msg("cannot write events: they are shown, and the write is tried again")
			}
			failures++
			pause = again.Delay(failures)
			rouse(b.wake)
		} else {
			failures = 0
		}
		b.rouseJournal()
		select {
		case <-time.After(pause):
		case <-quit:
		}
	}
}

// flush writes what is pending by one transaction. What can't be written stays pending, unless there is something newer.
func (b *behind) flush() error {
	some, needed := b.begin()
	if !needed {
		return b.end(some, nil)
	}
	return b.end(some, b.guarded(func() error {
		return b.db.Update(func(tx *bbolt.Tx) error { return b.write(tx, some) })
	}))
}

// begin takes what the next transaction writes, and reports whether it is needed: also for the number of a change that has come and gone.
func (b *behind) begin() (some batch, needed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	needed = !b.broken && !b.clean()
	return b.take(), needed
}

// end notes how a transaction went.
func (b *behind) end(some batch, failure error) error {
	var missing map[place]bool
	if failure != nil {
		missing = b.missing(some)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.broken:
		return nil
	case failure != nil:
		b.undone(missing)
		return errors.Wrap(failure, "cannot write the history")
	}
	b.done(some.to)
	return nil
}

// missing are the removals of a batch of what the database hasn't got: it may never have come there.
func (b *behind) missing(some batch) map[place]bool {
	out := map[place]bool{}
	if !b.usable() {
		return nil
	}
	err := b.guarded(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			all := tx.Bucket([]byte(b.namespace))
			for at, is := range some.of {
				if is.sealed == nil {
					out[at] = all == nil || all.Bucket([]byte(at.kind)) == nil || all.Bucket([]byte(at.kind)).Get([]byte(at.id)) == nil
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil
	}
	return out
}

func (b *behind) write(tx *bbolt.Tx, some batch) error {
	all, err := tx.CreateBucketIfNotExists([]byte(b.namespace))
	if err == nil {
		err = all.SetSequence(some.to)
	}
	if err != nil {
		return errors.WithStack(err)
	}
	for at, is := range some.of {
		of, err := all.CreateBucketIfNotExists([]byte(at.kind))
		if err == nil && is.sealed == nil {
			err = of.Delete([]byte(at.id))
		} else if err == nil {
			err = of.Put([]byte(at.id), is.sealed)
		}
		if err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

// keepJournal has the journal follow the changes until ended is closed, then once more. Nothing else touches the journal.
func (b *behind) keepJournal(ended <-chan struct{}) {
	if b.journal == nil {
		<-ended
		return
	}
	for last := false; !last; {
		select {
		case <-b.journal.wake:
		case <-ended:
			last = true
		}
		if err := b.keep(); err != nil {
			b.log.Debug().Err(err).Str("step", "event").Msg("events that aren't written yet are lost if the process is killed now")
		}
	}
}

// keep adds to the journal what it hasn't got, or empties it when the database has all.
func (b *behind) keep() error {
	b.mu.Lock()
	broken, clean := b.broken, b.clean()
	fresh, whole := b.noted()
	anew := clean || !whole || b.journal.stale || b.journal.large()
	var left []entry
	if anew {
		left = b.left()
	}
	b.mu.Unlock()
	if broken || clean && b.journal.size == 0 {
		return nil
	}
	if anew {
		err := b.journal.replace(left...)
		if b.journal.stale = err != nil; err == nil {
			return nil
		}
	}
	err := b.journal.add(fresh...)
	b.journal.stale = b.journal.stale || err != nil
	return err
}
