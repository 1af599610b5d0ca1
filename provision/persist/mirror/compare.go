package mirror

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// A check reads a part of the listed objects, 1 of shares, but leastRead at least: after so many checks all of them were read.
const (
	shares    = 30
	leastRead = 64
)

// errHeld marks the error about a mirror that has another store's files.
var errHeld = errors.New("nothing of it is changed: restore a store from it, or give it up by `croftd store mirror-replace`")

// compared is what this process knows of the mirror by having compared it with the store.
type compared struct {
	// ready is whether the mirror was compared, and nothing has failed since. own is whether it was ready once, and wasn't found to be another
	// store's since: whatever is damaged there is of this store.
	ready, own bool
	// due is whether objects are to be read, after the name of the last one that was; empty before the first.
	due   bool
	after string
}

// connect brings the instance up, and compares the mirror with the store.
func (w *writer) connect(ctx context.Context, check, replace bool) error {
	w.is.ready = false
	w.is.due = w.is.due || check
	machine := persist.MachineID(w.cfg.Key.ID())
	if !w.provider.InstanceStatus(w.instance).Status {
		err := w.within(ctx, func(ctx context.Context) error { return w.provider.Initialize(ctx, machine) })
		if err != nil && !w.provider.InstanceStatus(w.instance).Status {
			return err
		}
	}
	found, err := w.look(ctx, machine)
	if err != nil {
		return err
	}
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
	w.is.ready, w.is.own = true, true
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = w.there.Complete, w.there.Written
	w.mirror.mu.Unlock()
	return nil
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
// store has counts: the birth, and records.
func (w *writer) hasOwn(found contents) (bool, error) {
	names, err := w.cfg.Source.Names()
	if err != nil {
		return false, err
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
	left := map[persist.Key]bool{}
	for _, key := range found.keys {
		left[key] = true
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
	if err := w.each(ctx, share, func(name string) error { return w.inspectOne(ctx, name) }); err != nil {
		return err
	}
	w.is.due, w.is.after = false, share[len(share)-1]
	return nil
}

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
	w.cfg.Log.Error().Err(err).Str("instance", w.instance).Str("name", name).Msg("an object of the mirror is damaged: it is sent again")
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.there.Files, name)
	w.unlisted = true
	w.stale.keys[w.keyOf(name, hash)] = false
	return nil
}
