package zdb

import (
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

const (
	// tickEvery is how often changed stores have work done.
	tickEvery = time.Second
	// restAfter is how long after its last change a store needs no more work.
	restAfter = time.Minute
	// workBudget is how many bytes a store may move at a time.
	workBudget = 256 << 10
)

// upkeep flushes the stores that a round wrote to, has stores do their work between
// rounds, such as cleaning, and counts the errors of their disks.
type upkeep struct {
	rare  zerolog.Logger // for errors that may come with every command
	now   func() time.Time
	count *counters
	// unflushed are the namespaces that were written to in this round, busy those
	// whose stores may have work to do.
	unflushed, busy []*namespace
	// lost is an error of this round's writes from before its flush.
	lost error
}

// wrote says that a namespace has something to flush.
func (u *upkeep) wrote(ns *namespace) {
	if !ns.care.unflushed {
		ns.care.unflushed = true
		u.unflushed = append(u.unflushed, ns)
	}
}

// flush writes this round's changes. After an error the connections whose replies
// depend on it are closed.
func (u *upkeep) flush() error {
	first := u.lost
	u.lost = nil
	for i, ns := range u.unflushed {
		u.unflushed[i] = nil
		ns.care.unflushed = false
		if ns.broken() {
			continue
		}
		if err := ns.store.Flush(); err != nil {
			u.unwritten(ns, err)
			first = err
		}
		u.stir(ns)
	}
	u.unflushed = u.unflushed[:0]
	return first
}

// flushNow writes a namespace's changes before the round's end, which fails if this
// does.
func (u *upkeep) flushNow(ns *namespace) {
	if err := ns.store.Flush(); err != nil {
		u.unwritten(ns, err)
		u.lost = err
	}
}

func (u *upkeep) unwritten(ns *namespace, err error) {
	u.count.writeErrors++
	ns.errors.add(u.now())
	u.rare.Error().Err(err).Str("namespace", ns.Name).Msg("cannot write: the clients that did are disconnected")
}

// stir has a store do its work.
func (u *upkeep) stir(ns *namespace) {
	ns.care.changed = true
	if !ns.care.busy {
		ns.care.busy = true
		u.busy = append(u.busy, ns)
	}
}

// tick has the stores that are due do a step. It returns when the next one is due, or
// next if that is sooner.
func (u *upkeep) tick(now, next time.Time) time.Time {
	u.busy = slices.DeleteFunc(u.busy, func(ns *namespace) bool {
		if ns.broken() || ns.gone {
			ns.care.busy = false
			return true
		}
		if !ns.care.due.After(now) {
			u.work(ns, now)
		}
		if ns.care.busy && ns.care.due.Before(next) {
			next = ns.care.due
		}
		return !ns.care.busy
	})
	return next
}

// work has a store do a step.
func (u *upkeep) work(ns *namespace, now time.Time) {
	after, err := ns.store.Work(now, workBudget)
	if err != nil {
		u.count.writeErrors++
		ns.errors.add(now)
		u.rare.Error().Err(err).Str("namespace", ns.Name).Msg("cannot tidy up a namespace's data")
		after = max(after, tickEvery)
	}
	if ns.care.worked(now, after, err != nil) {
		ns.care.busy = false
	}
}

// failed answers an error of the store.
func (u *upkeep) failed(c *session, command string, err error) {
	switch {
	case errors.Is(err, store.ErrNoSpace):
		c.fail("No space left on this namespace")
	case errors.Is(err, store.ErrDiskFull):
		u.count.writeErrors++
		c.ns.errors.add(u.now())
		u.rare.Error().Err(err).Str("namespace", c.ns.Name).Str("command", command).Msg("the disk is full")
		c.fail("No space left on the disk of this server")
		u.stir(c.ns) // deleted values may be cleaned
	case errors.Is(err, store.ErrWorm):
		c.fail("Namespace is protected by worm mode")
	case errors.Is(err, store.ErrUnknownID):
		c.fail("Invalid key, only update authorized")
	case errors.Is(err, store.ErrFull):
		c.fail("No memory left for keys on this server")
	default:
		u.count.readErrors++
		c.ns.errors.add(u.now())
		u.rare.Error().Err(err).Str("namespace", c.ns.Name).Str("command", command).Msg("zdb command failed")
		c.fail(textInternal)
	}
}
