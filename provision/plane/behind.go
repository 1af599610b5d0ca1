package plane

import (
	"context"
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

// behindPause is the least time between two transactions: a burst of events costs the disk, which the store of the records
// uses too, one durable write a second. The first event after a pause is written at once.
const behindPause = time.Second

// behind is a backing store that writes to a bbolt database beside its callers: all that has changed meanwhile by one
// durable transaction, and of each resource its newest content only. What can't be written, such as on a full disk, is tried again.
// A process that is killed loses nothing that was put: a journal has it. A machine that loses its power loses what wasn't written yet. A database that was damaged while it was open, which shows itself by a panic of bbolt,
// keeps bbolt's locks: it isn't touched any more, and what happens is in memory alone until the next start.
type behind struct {
	// BackingStore reads the database; what is written here has its layout: a bucket for the namespace, in it one for each type.
	inmem.BackingStore
	db        *bbolt.DB
	namespace resource.Namespace
	seal      store.Marshaler
	log       zerolog.Logger
	wake      chan struct{}
	// close writes what is pending, and ends.
	close func()

	mu sync.Mutex
	// pending are the sealed contents to be written, nil where a resource is to be removed.
	pending map[place][]byte
	// filed are the resources that the file has, or may have.
	filed map[place]bool
	// broken is whether the database isn't used any more.
	broken bool
	// journal has what is pending; nil where there can't be one.
	journal *journal
}

type place struct {
	kind resource.Type
	id   resource.ID
}

// newBehind makes the store of a namespace. What an earlier process has left in the journal is in the database when it returns, unless that can't be
// written now.
func newBehind(db *bbolt.DB, ns resource.Namespace, reads inmem.BackingStore, seal store.Marshaler, log zerolog.Logger) *behind {
	b := &behind{
		BackingStore: reads, db: db, namespace: ns, seal: seal, log: log,
		wake: make(chan struct{}, 1), pending: map[place][]byte{}, filed: map[place]bool{},
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	b.close = sync.OnceFunc(func() {
		close(quit)
		<-ended
	})
	if err := b.catchUp(); err != nil {
		log.Error().Err(err).Str("step", "event").Msg("cannot write the last events of before now: tried again with the next ones")
	}
	go supervise.Do(log, "history", func() {
		defer close(ended)
		b.run(quit)
	})
	return b
}

// catchUp writes what the journal has. Contents of another key are left out.
func (b *behind) catchUp() error {
	j, left, err := openJournal(b.db.Path() + ".journal")
	if err != nil {
		return err
	}
	b.journal = j
	for _, e := range left {
		if e.Sealed != nil {
			if _, err := b.seal.UnmarshalResource(e.Sealed); err != nil {
				continue
			}
		}
		b.pending[place{e.Kind, e.ID}] = e.Sealed
	}
	return b.flush()
}

// note has the journal keep an entry. One that can't be kept is pending all the same. The caller holds mu.
func (b *behind) note(e entry) {
	if b.journal == nil {
		return
	}
	err := b.journal.add(e)
	if err == nil && b.journal.size > mostJournal {
		err = b.shorten()
	}
	if err != nil {
		b.log.Debug().Err(err).Str("step", "event").Msg("an event isn't kept if the process is killed now")
	}
}

// Load implements inmem.BackingStore.
func (b *behind) Load(ctx context.Context, handle inmem.LoadHandler) error {
	err := supervise.Guard(b.log, "history", func() error {
		defer faults()()
		return b.BackingStore.Load(ctx, func(kind resource.Type, r resource.Resource) error {
			b.mu.Lock()
			b.filed[place{kind, r.Metadata().ID()}] = true
			b.mu.Unlock()
			return handle(kind, r)
		})
	})
	b.broke(err)
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
	clear(b.pending)
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
	b.mu.Lock()
	if !b.broken {
		b.pending[place{kind, r.Metadata().ID()}] = sealed
		b.note(entry{kind, r.Metadata().ID(), sealed})
	}
	b.mu.Unlock()
	b.rouse()
	return nil
}

// Destroy implements inmem.BackingStore.
func (b *behind) Destroy(_ context.Context, kind resource.Type, p resource.Pointer) error {
	at := place{kind, p.ID()}
	b.mu.Lock()
	_, waits := b.pending[at]
	if delete(b.pending, at); b.filed[at] && !b.broken {
		b.pending[at] = nil
	}
	if (waits || b.filed[at]) && !b.broken {
		b.note(entry{at.kind, at.id, nil})
	}
	b.mu.Unlock()
	b.rouse()
	return nil
}

func (b *behind) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run writes until quit is closed, then once more.
func (b *behind) run(quit chan struct{}) {
	again := backoff.Backoff{Base: time.Second, Max: time.Minute}
	failures := 0
	for {
		select {
		case <-b.wake:
		case <-quit:
			if err := b.flush(); err != nil {
				b.log.Error().Err(err).Str("step", "event").Msg("the last events are lost: they can't be written")
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
			b.rouse()
		} else {
			failures = 0
		}
		select {
		case <-time.After(pause):
		case <-quit:
		}
	}
}

// flush writes what is pending by one transaction. What can't be written stays pending, unless there is something newer.
func (b *behind) flush() error {
	b.mu.Lock()
	some := b.pending
	b.pending = map[place][]byte{}
	for at, sealed := range some {
		if sealed != nil {
			b.filed[at] = true
		}
	}
	b.mu.Unlock()
	if len(some) == 0 {
		return nil
	}
	err := supervise.Guard(b.log, "history", func() error {
		defer faults()()
		return b.db.Update(func(tx *bbolt.Tx) error { return b.write(tx, some) })
	})
	if b.broke(err) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, sealed := range some {
		_, newer := b.pending[at]
		switch {
		case err != nil && !newer:
			b.pending[at] = sealed
		case err == nil && sealed == nil:
			delete(b.filed, at)
		}
	}
	if err == nil {
		err = b.shorten()
	}
	return errors.Wrap(err, "cannot write the history")
}

// shorten leaves in the journal what isn't in the database yet. The caller holds mu.
func (b *behind) shorten() error {
	if b.journal == nil {
		return nil
	}
	var left []entry
	for at, sealed := range b.pending {
		left = append(left, entry{at.kind, at.id, sealed})
	}
	return b.journal.replace(left...)
}

func (b *behind) write(tx *bbolt.Tx, some map[place][]byte) error {
	all, err := tx.CreateBucketIfNotExists([]byte(b.namespace))
	if err != nil {
		return errors.WithStack(err)
	}
	for at, sealed := range some {
		of, err := all.CreateBucketIfNotExists([]byte(at.kind))
		if err == nil && sealed == nil {
			err = of.Delete([]byte(at.id))
		} else if err == nil {
			err = of.Put([]byte(at.id), sealed)
		}
		if err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}
