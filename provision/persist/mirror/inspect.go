package mirror

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// A check reads a part of the listed objects, 1 of shares, but leastRead at least: after so many checks all of them were read. Of a place that works
// mostAlone objects at most are taken for damaged because they can't be read: more tell of the place.
const (
	shares    = 30
	leastRead = 64
	mostAlone = 16
)

// inspect reads the next part of the listed objects, if a check is due. Those that aren't sound are sent again: a listing tells only that there
// is something.
func (w *writer) inspect(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(w.there.Files))
	if !w.is.due || len(names) == 0 {
		return nil
	}
	at, found := slices.BinarySearch(names, w.is.after)
	if found {
		at++
	} else if w.is.after == "" {
		at = rand.IntN(len(names)) // a node that starts often doesn't read the same ones each time
	}
	var share []string
	for i := range min(len(names), max((len(names)+shares-1)/shares, leastRead)) {
		share = append(share, names[(at+i)%len(names)])
	}
	w.is.due, w.is.after = false, share[len(share)-1] // also if it fails: what can't be read must not hold up the mirror for good
	var failed []string
	err := each(ctx, w.mirror.marks, share, func(name string) error {
		if w.inspectOne(ctx, name) != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			failed = append(failed, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.inspectAgain(ctx, failed)
}

// inspectAgain reads objects again that couldn't be read, one by one. The place may be down since one of them was: one that can't be read where the
// place can be brought up again is taken for damaged.
func (w *writer) inspectAgain(ctx context.Context, names []string) error {
	machine, alone := persist.MachineID(w.cfg.Key.ID()), 0
	for _, name := range names {
		if err := w.bringUp(ctx, machine); err != nil {
			return err
		}
		err := w.inspectOne(ctx, name)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if down := w.bringUp(ctx, machine); down != nil {
			return down
		}
		if alone++; alone > mostAlone {
			return err
		}
		w.sendAgain(name, err)
	}
	if len(names) == 0 {
		return nil
	}
	return w.unchanged(ctx)
}

// unchanged fails if the mirror has another list than it was compared with: what was down may have been put back to an older state meanwhile, or be another
// store's.
func (w *writer) unchanged(ctx context.Context) error {
	l, err := w.readList(ctx, w.vault)
	if err != nil {
		return err
	}
	if l.Birth != w.there.Birth || !l.Written.Equal(w.there.Written) {
		return node.Errorf(node.Transient, "cannot go on with the mirror %s: it has another list since it was down", w.instance)
	}
	return nil
}

// inspectOne reads an object, and has it sent again if it is missing or damaged.
func (w *writer) inspectOne(ctx context.Context, name string) error {
	w.mu.Lock()
	hash := w.there.Files[name]
	w.mu.Unlock()
	o, err := w.get(ctx, kindFile, w.vault.Hidden(kindFile, contentName(name, hash)))
	if err == nil {
		_, err = soundBody(w.vault, o, name, hash)
	}
	if kind := node.KindOf(err); err == nil || kind != node.NotExist && kind != node.Invalid {
		return err
	}
	w.sendAgain(name, err)
	return nil
}

// sendAgain has a damaged object sent again.
func (w *writer) sendAgain(name string, err error) {
	w.cfg.Log.Error().Err(err).Str("instance", w.instance).Str("name", name).Msg("an object of the mirror is damaged: it is sent again")
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.keyOf(name, w.there.Files[name])
	delete(w.there.Files, name)
	w.unlisted = true
	w.stale.keys[key] = leftover{dropped: time.Now()}
}
