package mirror

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// mostRemoved is how many objects more than were dropped since the last time are removed while names wait to be sent; the rest follows the next list.
const mostRemoved = 256

// listing is what this process knows of the lists that it has written.
type listing struct {
	// at is when the last one was written, began when its sending began, and number its number.
	at, began time.Time
	number    uint64
	// met is whether this process has looked at the mirror.
	met bool
	// doubt is when a list was sent last of which nobody knows what came of it; zero when there is none. It may still take the place of a newer one, so
	// what it names must stay.
	doubt time.Time
}

// leftovers are the objects that the next list doesn't name.
type leftovers struct {
	keys map[persist.Key]leftover
	// fresh is how many were dropped since the last time that some were removed.
	fresh int
	// refused is whether the place didn't let us remove the last one, and told whether that was logged since there were none left.
	refused, told bool
}

// leftover is an object that the next list doesn't name.
type leftover struct {
	// there is whether it is surely there: a failed try may have left or removed it else.
	there bool
	// dropped is since when no list that is sent names it.
	dropped time.Time
}

// removable are at most most of the objects to be removed. While there is doubt, an object stays until a list was written that was begun so long after the object
// was dropped that no earlier one, which may name it, can arrive any more.
func (w *writer) removable(most int) []string {
	var out []string
	for key, left := range w.stale.keys {
		if len(out) == most {
			break
		}
		if w.last.doubt.IsZero() || w.last.began.Sub(left.dropped) >= w.cfg.Doubt {
			out = append(out, string(key))
		}
	}
	return out
}

// dirty reports whether the list is to be written, or something to be removed.
func (w *writer) dirty() bool {
	return w.unlisted || !w.there.Complete || !w.stale.refused && len(w.removable(1)) > 0
}

// early is how long it is until the next list may be written; at most 0 from then on.
func (w *writer) early() time.Duration {
	if w.last.at.IsZero() {
		return 0
	}
	return w.cfg.Pace - time.Since(w.last.at)
}

// due is how long it is until there is something to do, and whether that is sooner when the store changes; negative when nothing else brings it.
func (w *writer) due() (wait time.Duration, changes bool) {
	switch {
	case w.dirty() || w.mirror.marks.wait():
		return max(w.early(), 0), false
	case !w.last.doubt.IsZero():
		return max(w.cfg.Doubt-time.Since(w.last.doubt), w.early(), 0), true
	}
	return -1, true
}

// settle writes the list if it differs, then removes what it doesn't have any more. What was sent must be the store as it was at one moment: a
// list of a part of the changes would have a reservation's end without what replaced it.
func (w *writer) settle(ctx context.Context) error {
	over := !w.last.doubt.IsZero() && time.Since(w.last.doubt) >= w.cfg.Doubt
	if w.unlisted || !w.there.Complete || over {
		if err := w.enlist(ctx); err != nil {
			return err
		}
	}
	w.mirror.marks.listed()
	return w.tidy(ctx)
}

// enlist writes the list.
func (w *writer) enlist(ctx context.Context) error {
	w.there.Number++
	l := w.there
	l.Written = time.Now().UTC()
	l.Complete = true
	l.Birth, _ = w.cfg.Birth()
	began := time.Now()
	if err := w.writeList(ctx, w.vault, &l); err != nil {
		if kind := node.KindOf(err); kind != node.Invalid && kind != node.NotExist {
			w.last.doubt = time.Now() // it may have happened, or happen yet
		}
		return err
	}
	if began.Sub(w.last.doubt) >= w.cfg.Doubt {
		w.last.doubt = time.Time{}
	}
	w.there, w.unlisted = l, false
	w.last.at, w.last.began, w.last.number = time.Now(), began, l.Number
	w.is.own, w.is.tried = true, false
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = l.Complete, l.Written
	w.mirror.mu.Unlock()
	return nil
}

// tidy removes what no list names any more. A place that doesn't let us costs space alone. While names wait to be sent it removes as many as were dropped, and some
// more, so that it keeps up with any changes. It ends early when somebody asks for something: the rest follows that.
func (w *writer) tidy(ctx context.Context) error {
	bound := mostRemoved + w.stale.fresh
	w.stale.fresh = 0
	for removed, parts := 0, 0; removed < bound || !w.mirror.marks.wait(); parts++ {
		most := batch
		if w.stale.refused {
			most = 1 // to see whether it is still so
		}
		some := w.removable(most)
		if len(some) == 0 || parts > 0 && w.mirror.asked() {
			break
		}
		if parts > 0 && parts%batches == 0 {
			w.mirror.tell()
		}
		err := each(ctx, w.mirror.marks, some, func(key string) error { return w.removeOne(ctx, persist.Key(key)) })
		if node.KindOf(err) == node.Refused && w.provider.InstanceStatus(w.instance).Status {
			if !w.stale.told {
				w.cfg.Log.Warn().Err(err).Str("instance", w.instance).Msg("the mirror's place lets nothing be removed: it fills with objects that nothing needs")
			}
			w.stale.refused, w.stale.told = true, true
			return nil
		}
		if err != nil {
			return err
		}
		w.stale.refused = false
		removed += len(some)
	}
	w.stale.told = w.stale.told && len(w.stale.keys) > 0
	return nil
}

func (w *writer) removeOne(ctx context.Context, key persist.Key) error {
	w.mu.Lock()
	w.stale.keys[key] = leftover{dropped: w.stale.keys[key].dropped}
	w.mu.Unlock()
	if err := w.remove(ctx, key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stale.keys, key)
	return nil
}
