package mirror

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// mostRemoved is how many objects are removed while names wait to be sent; the rest follows the next list.
const mostRemoved = 256

// listing is what this process knows of the lists that it has written.
type listing struct {
	// at is when the last one was written, and number its number.
	at     time.Time
	number uint64
	// doubt is when a list was sent last of which nobody knows what came of it; zero when there is none. It may still take the place of a newer one, so
	// what it names must stay.
	doubt time.Time
}

// leftovers are the objects that the next list doesn't name.
type leftovers struct {
	// keys are true for those that are surely there, false for those that a failed try may have left, or removed.
	keys map[persist.Key]bool
	// refused is whether the place didn't let us remove the last one.
	refused bool
}

// first returns at most most of them.
func (l leftovers) first(most int) []string {
	var out []string
	for key := range l.keys {
		if len(out) == most {
			break
		}
		out = append(out, string(key))
	}
	return out
}

// dirty reports whether the list is to be written, or something to be removed.
func (w *writer) dirty() bool {
	return w.unlisted || !w.there.Complete || len(w.stale.keys) > 0 && !w.stale.refused && w.last.doubt.IsZero()
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
	if !w.last.doubt.IsZero() {
		return nil
	}
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
	w.last.at, w.last.number = time.Now(), l.Number
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = l.Complete, l.Written
	w.mirror.mu.Unlock()
	return nil
}

// tidy removes what no list names any more. A place that doesn't let us costs space alone.
func (w *writer) tidy(ctx context.Context) error {
	for removed := 0; len(w.stale.keys) > 0 && (removed < mostRemoved || !w.mirror.marks.wait()); {
		most := batch
		if w.stale.refused {
			most = 1 // to see whether it is still so
		}
		some := w.stale.first(most)
		err := w.each(ctx, some, func(key string) error { return w.removeOne(ctx, persist.Key(key)) })
		if node.KindOf(err) == node.Refused && w.provider.InstanceStatus(w.instance).Status {
			if !w.stale.refused {
				w.cfg.Log.Warn().Err(err).Str("instance", w.instance).Msg("the mirror's place lets nothing be removed: it fills with objects that nothing needs")
			}
			w.stale.refused = true
			return nil
		}
		if err != nil {
			return err
		}
		w.stale.refused = false
		removed += len(some)
	}
	return nil
}

func (w *writer) removeOne(ctx context.Context, key persist.Key) error {
	w.mu.Lock()
	w.stale.keys[key] = false
	w.mu.Unlock()
	if err := w.remove(ctx, key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stale.keys, key)
	return nil
}
