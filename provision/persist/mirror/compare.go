package mirror

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// errHeld marks the error about a mirror that has another store's files.
var errHeld = errors.New("nothing of it is changed: restore a store from it, or give it up by `croftd store mirror-replace`")

// compared is what this process knows of the mirror by having compared it with the store.
type compared struct {
	// ready is whether the mirror was compared with the store, and neither another comparison nor a replacement has failed since; what can't be sent
	// doesn't end it. own is whether it was ready once, or its replacement has succeeded, and it wasn't found to be another store's since: whatever is
	// damaged there is of this store.
	ready, own bool
	// tried is whether a replacement has failed: what it has sent doesn't make the mirror this store's.
	tried bool
	// due is whether objects are to be read, after the name of the last one that was; empty before the first.
	due   bool
	after string
}

// connect brings the instance up, and compares the mirror with the store.
func (w *writer) connect(ctx context.Context, check, replace bool) error {
	w.is.ready = false
	w.is.due = w.is.due || check
	machine := persist.MachineID(w.cfg.Key.ID())
	if err := w.bringUp(ctx, machine); err != nil {
		return err
	}
	found, err := w.look(ctx, machine)
	if err != nil {
		return err
	}
	w.meet(found)
	if !replace {
		if err := w.held(found); err != nil {
			w.is.own = w.is.own && !errors.Is(err, errHeld)
			return err
		}
	}
	if found.list != nil && w.is.own && found.list.Number < w.last.number {
		w.cfg.Log.Error().Str("instance", w.instance).Uint64("number", found.list.Number).Uint64("written", w.last.number).
			Msg("the mirror was put back to an older state: what differs from the store is sent again")
	}
	switch {
	case found.list == nil:
		found.list = &list{}
	case replace:
		found.list = &list{Number: found.list.Number}
	}
	if err := w.begin(ctx, found, machine); err != nil {
		return err
	}
	if err := w.compare(found); err != nil {
		return err
	}
	if err := w.inspect(ctx); err != nil {
		return err
	}
	w.is.ready, w.is.own = true, !replace // enlist makes it own then
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = w.there.Complete, w.there.Written
	w.mirror.mu.Unlock()
	return nil
}

// bringUp brings the instance up if it is down.
func (p place) bringUp(ctx context.Context, machine persist.MachineID) error {
	if p.provider.InstanceStatus(p.instance).Status {
		return nil
	}
	err := p.within(ctx, func(ctx context.Context) error { return p.provider.Initialize(ctx, machine) })
	if p.provider.InstanceStatus(p.instance).Status {
		return nil // of a provider's other instances it is not for us to tell
	}
	return err
}

// meet begins in doubt where an earlier process has written: it may have ended while a list was on its way.
func (w *writer) meet(found contents) {
	if !w.last.met && (found.list != nil || len(found.keys) > 0) {
		w.last.doubt = time.Now()
	}
	w.last.met = true
}

// look reads what the mirror has: its data key and list, as far as they are sound, and the keys of its files.
func (w *writer) look(ctx context.Context, machine persist.MachineID) (found contents, err error) {
	damaged := func(what string, err error) bool {
		if kind := node.KindOf(err); kind != node.NotExist && kind != node.Invalid && kind != node.Refused {
			return false
		} else if kind != node.NotExist {
			w.cfg.Log.Warn().Err(err).Str("instance", w.instance).Msgf("the %s of the mirror is damaged", what)
		}
		return w.provider.InstanceStatus(w.instance).Status // else it is down, not damaged
	}
	o, err := w.get(ctx, kindKey, onlyName)
	if err == nil {
		found.opened, err = seal.Unwrap(o.Body, machine, w.cfg.Key)
	}
	if err != nil && !damaged("data key", err) {
		return found, err
	}
	if found.opened.Vault != nil {
		found.list, err = w.readList(ctx, found.opened.Vault)
		if err != nil && !damaged("list", err) {
			return found, err
		}
	}
	var keys []persist.Key
	err = w.within(ctx, func(ctx context.Context) error {
		keys, err = w.provider.Keys(ctx, w.instance, kindFile)
		return err
	})
	if found.cut = len(keys) >= persist.MostKeys; found.cut {
		w.cfg.Log.Warn().Str("instance", w.instance).Int("listed", len(keys)).Msg("the mirror has more objects than are listed: those that nothing needs stay")
	}
	found.keys = slices.DeleteFunc(keys, func(key persist.Key) bool { return !key.Valid() }) // what isn't a key is another's
	found.cut = found.cut && len(found.keys) > 0
	return found, err
}

// held refuses to write over the files of another store: those that a disk was lost with are on the mirror alone. One wrong answer of the place must
// not be enough for that.
func (w *writer) held(found contents) error {
	files := len(found.keys)
	if found.list != nil {
		files = max(files, len(found.list.Files))
	}
	if files == 0 {
		return nil
	}
	hold := func(format string, args ...any) error {
		args = append(append([]any{w.instance}, args...), errHeld)
		return node.Errorf(node.Refused, "cannot write to the mirror %s: "+format+"; %w", args...)
	}
	if found.list != nil {
		return w.heldList(found.list, files, hold)
	}
	if w.is.own {
		return nil // it is to be made whole again
	}
	if found.opened.Vault == nil {
		return hold("its data key is lost or damaged, and it has %d files", files)
	}
	if w.is.tried {
		return hold("its list is lost or damaged, it has %d files, and replacing it has failed", files)
	}
	own, err := w.hasOwn(found)
	if err == nil && !own {
		err = hold("its list is lost or damaged, and it has %d files, none of which is this store's", files)
	}
	return err
}

// heldList is held by the list that the mirror has.
func (w *writer) heldList(l *list, files int, hold func(format string, args ...any) error) error {
	own, ancestors := w.cfg.Birth()
	if l.Birth == own {
		return nil
	}
	written := l.Written.UTC().Format(time.RFC3339)
	if !slices.Contains(ancestors, l.Birth) {
		return hold("it has %d files of an earlier store of this machine, with birth %s, as of %s", files, l.Birth, written)
	}
	newer, err := later(w.cfg.Source, l)
	if err == nil && newer {
		err = hold("its list of %d files, as of %s, is newer than the one that this store was restored from", files, written)
	}
	return err
}

// hasOwn reports whether a mirror without a list has a file of this store: then the store's first copy was cut short, or its list is lost. Only what no other
// store has counts: the birth, and the records of a store that wasn't restored; those of one that was are on the mirrors of the stores that it follows, too.
func (w *writer) hasOwn(found contents) (bool, error) {
	names, err := w.cfg.Source.Names()
	if err != nil {
		return false, err
	}
	if _, ancestors := w.cfg.Birth(); len(ancestors) > 0 || slices.Contains(names, restoredFile) {
		names = nil
	}
	for _, name := range append([]string{birthFile}, names...) {
		if strings.Contains(name, "/") && name != birthFile {
			continue
		}
		body, err := w.cfg.Source.Read(name)
		if err != nil {
			continue // others tell
		}
		key := persist.KeyOf(found.opened.Vault.Hidden(kindFile, contentName(name, sum(body))))
		if _, there := slices.BinarySearch(found.keys, key); there {
			return true, nil
		}
	}
	return false, nil
}

// begin opens the data key, or makes a new one if there is none, or if it isn't for the right recovery key: who has an old recovery key can't read what
// is written from then on.
func (w *writer) begin(ctx context.Context, found contents, machine persist.MachineID) error {
	number := max(w.there.Number, found.list.Number)
	w.vault, w.there = found.opened.Vault, *found.list
	if w.vault == nil || found.opened.RecoveryKey != w.cfg.Recovery {
		fresh, err := seal.New(machine)
		if err != nil {
			return err
		}
		doc, err := fresh.Wrap(w.cfg.Key, w.cfg.Recovery)
		if err != nil {
			return err
		}
		// The first list has no files, and comes before the key: it tells whose the mirror is while its first copy isn't whole.
		number++
		birth, _ := w.cfg.Birth()
		if err := w.writeList(ctx, fresh, &list{Number: number, Birth: birth, Written: time.Now().UTC()}); err != nil {
			return err
		}
		if err := w.put(ctx, persist.Object{Kind: kindKey, Name: onlyName, Body: doc}); err != nil {
			return err
		}
		w.vault, w.there = fresh, list{}
	}
	w.there.Number = number
	if w.there.Files == nil {
		w.there.Files = map[string]string{}
	}
	w.unlisted, w.unfit = false, map[string]bool{}
	return nil
}

// compare marks the names whose newest contents aren't there, and finds the objects that nothing needs.
func (w *writer) compare(found contents) error {
	names, err := w.cfg.Source.Names()
	if err != nil {
		return err
	}
	left, now := map[persist.Key]leftover{}, time.Now()
	for _, key := range found.keys {
		left[key] = leftover{there: true, dropped: cmp.Or(w.stale.keys[key].dropped, now)}
	}
	for name, hash := range w.there.Files {
		key := w.keyOf(name, hash)
		if !found.may(key) {
			delete(w.there.Files, name)
			w.unlisted = true
		}
		delete(left, key)
		w.mirror.marks.check(time.Now(), name) // also one that the store doesn't have any more
	}
	w.mirror.marks.check(time.Now(), names...)
	w.stale.keys = left
	birth, _ := w.cfg.Birth()
	w.unlisted = w.unlisted || w.there.Birth != birth || !w.there.Complete
	return nil
}
