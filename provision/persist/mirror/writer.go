package mirror

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

const (
	// batch is how many names are read and sent before it is looked how many are left, atOnce how many of them at the same time: each may be
	// held in memory.
	batch  = 64
	atOnce = 8
	// mostRead and mostBytes bound what is read before it is sent.
	mostRead  = 512
	mostBytes = 8 << 20
)

// errHeld marks the error about a mirror that has another store's files.
var errHeld = errors.New("nothing of it is changed: restore a store from it, or give it up by `croftd store mirror-replace`")

// writer is what Run knows of the mirror: what is there.
type writer struct {
	place
	mirror *Mirror
	cfg    Config

	// ready is whether the mirror was compared with the store.
	ready bool
	vault *seal.Vault
	// listed is when the list was last written.
	listed time.Time

	// mu guards the fields below while a batch is sent.
	mu sync.Mutex
	// there is the next list: the contents that are there. unlisted is whether the list on the mirror differs.
	there    list
	unlisted bool
	// stale are the objects to be removed once the list is written: true for those that are surely there, false for those that a failed
	// try may have left, or removed.
	stale map[persist.Key]bool
	// unfit are the names that can't be mirrored.
	unfit map[string]bool
}

// dirty reports whether the list is to be written, or something to be removed.
func (w *writer) dirty() bool { return w.unlisted || len(w.stale) > 0 || !w.there.Complete }

// connect brings the instance up, and compares the mirror with the store.
func (w *writer) connect(ctx context.Context, replace bool) error {
	machine := persist.MachineID(w.cfg.Key.ID())
	if !w.provider.InstanceStatus(w.instance).Status {
		err := w.within(ctx, func(ctx context.Context) error { return w.provider.Initialize(ctx, machine) })
		if err != nil && !w.provider.InstanceStatus(w.instance).Status {
			return err
		}
	}
	found, keys, err := w.look(ctx, machine)
	if err != nil {
		return err
	}
	if err := w.held(found, keys, replace); err != nil {
		return err
	}
	if found.list != nil && w.ready && found.list.Number < w.there.Number {
		w.cfg.Log.Error().Str("instance", w.instance).Uint64("number", found.list.Number).Uint64("written", w.there.Number).
			Msg("the mirror was put back to an older state: what differs from the store is sent again")
	}
	w.ready = false
	if found.list == nil || replace {
		found.list = &list{}
	}
	if err := w.begin(ctx, found, machine); err != nil {
		return err
	}
	if err := w.compare(keys); err != nil {
		return err
	}
	w.ready = true
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = w.there.Complete, w.there.Written
	w.mirror.mu.Unlock()
	return nil
}

// look reads what the mirror has: its data key and list, as far as they are sound, and the keys of its files.
func (w *writer) look(ctx context.Context, machine persist.MachineID) (found contents, keys []persist.Key, err error) {
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
		return found, nil, err
	}
	if found.opened.Vault != nil {
		found.list, err = w.readList(ctx, found.opened.Vault)
		if err != nil && !damaged("list", err) {
			return found, nil, err
		}
	}
	err = w.within(ctx, func(ctx context.Context) error {
		keys, err = w.provider.Keys(ctx, w.instance, kindFile)
		return err
	})
	return found, keys, err
}

// held refuses to write over the files of another store: those that a disk was lost with are on the mirror alone.
func (w *writer) held(found contents, keys []persist.Key, replace bool) error {
	if replace || len(keys) == 0 {
		return nil
	}
	own, ancestors := w.cfg.Birth()
	switch {
	case found.list != nil && found.list.Birth != own && !slices.Contains(ancestors, found.list.Birth):
		return node.Errorf(node.Refused, "cannot write to the mirror %s: it has %d files of an earlier store of this machine, with birth %s, as of %s; %w",
			w.instance, len(found.list.Files), found.list.Birth, found.list.Written.UTC().Format(time.RFC3339), errHeld)
	case found.list != nil:
		return nil
	}
	// Nobody can tell whose files these are. A store that has records will bring them all.
	names, err := w.cfg.Source.Names()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(name, "/") }) {
		return node.Errorf(node.Refused, "cannot write to the mirror %s: its list is lost, it has %d files, and this store has no record; %w", w.instance, len(keys), errHeld)
	}
	return nil
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

// keyOf is the key of the object that has a content of a name.
func (w *writer) keyOf(name, hash string) persist.Key {
	return persist.KeyOf(w.vault.Hidden(kindFile, contentName(name, hash)))
}

// compare marks the names whose newest contents aren't there, and finds the objects that nothing needs.
func (w *writer) compare(keys []persist.Key) error {
	names, err := w.cfg.Source.Names()
	if err != nil {
		return err
	}
	left := map[persist.Key]bool{}
	for _, key := range keys {
		if key.Valid() { // what isn't a key is another's
			left[key] = true
		}
	}
	for name, hash := range w.there.Files {
		key := w.keyOf(name, hash)
		if !left[key] {
			delete(w.there.Files, name)
			w.unlisted = true
		}
		delete(left, key)
		w.mirror.marks.add(time.Now(), name) // also one that the store doesn't have any more
	}
	w.mirror.marks.add(time.Now(), names...)
	w.stale = left
	birth, _ := w.cfg.Birth()
	w.unlisted = w.unlisted || w.there.Birth != birth || !w.there.Complete
	return nil
}

// content is what a name had when it was read: nothing when it was gone, or when it can't be mirrored.
type content struct {
	body  []byte
	gone  bool
	unfit error
}

func (w *writer) content(name string) (content, error) {
	body, err := w.cfg.Source.Read(name)
	switch node.KindOf(err) {
	case "":
		return content{body: body}, nil
	case node.NotExist:
		return content{gone: true}, nil
	case node.Invalid:
		return content{unfit: err}, nil
	}
	return content{}, err
}

// read reads all names that wait, as they are at one moment, and takes them. nil when they are too large to be held in memory.
func (w *writer) read(ctx context.Context) (map[string]content, error) {
	known, numbers := map[string]content{}, map[string]uint64{}
	size := 0
	for {
		some, whole := w.mirror.marks.unread(numbers)
		if whole {
			return known, nil
		}
		if len(some) == 0 { // a change of the store is under way
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-w.mirror.marks.wake: // its end
			}
			continue
		}
		for name, at := range some {
			c, err := w.content(name)
			if err != nil {
				return nil, err
			}
			size += len(c.body) - len(known[name].body)
			known[name], numbers[name] = c, at.number
			if len(known) > 2*mostRead || size > mostBytes {
				return nil, nil
			}
		}
	}
}

// sendAll sends the contents that read has taken, and writes the list. After a failure those that weren't sent wait again.
func (w *writer) sendAll(ctx context.Context, known map[string]content) error {
	err := w.each(slices.Collect(maps.Keys(known)), func(name string) error {
		sent := false
		defer func() {
			if !sent { // also after a panic
				w.mirror.marks.back(name)
			}
		}()
		err := w.sendOne(ctx, name, known[name])
		sent = err == nil
		return err
	})
	if err != nil {
		return err
	}
	return w.settle(ctx)
}

// send sends names' newest contents. A failure leaves them marked.
func (w *writer) send(ctx context.Context, names map[string]mark) error {
	return w.each(slices.Collect(maps.Keys(names)), func(name string) error {
		c, err := w.content(name)
		if err == nil {
			err = w.sendOne(ctx, name, c)
		}
		if err == nil {
			w.mirror.marks.done(name, names[name])
		}
		return err
	})
}

// each does something for names, for some of them at a time, and returns the first error.
func (w *writer) each(names []string, do func(name string) error) error {
	slots := make(chan struct{}, atOnce)
	failed := make(chan error, len(names))
	var wait sync.WaitGroup
	for _, name := range names {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			failed <- supervise.Catch("mirror of "+name, func() error { return do(name) })
		})
	}
	wait.Wait()
	close(failed)
	var first error
	for err := range failed {
		if first == nil {
			first = err
		}
	}
	return first
}

// sendOne sends a name's content, if the mirror doesn't have it.
func (w *writer) sendOne(ctx context.Context, name string, c content) error {
	switch {
	case c.gone:
		w.drop(name)
		return nil
	case c.unfit != nil:
		w.refuse(name, c.unfit)
		return nil
	}
	body := c.body
	hash := sum(body)
	key := w.keyOf(name, hash)
	w.mu.Lock()
	same, there := w.there.Files[name] == hash, w.stale[key]
	w.mu.Unlock()
	if same {
		return nil
	}
	if !there { // else an earlier process sent it, and couldn't list it any more
		o, err := w.vault.Seal(seal.Item{Kind: kindFile, Name: contentName(name, hash), Body: body})
		if err != nil {
			w.refuse(name, err)
			return nil
		}
		if err := w.put(ctx, o); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stale[key] = false
			return err
		}
	}
	w.drop(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stale, key)
	w.there.Files[name], w.unlisted = hash, true
	return nil
}

// drop takes a name out of the next list, and has its object removed after that.
func (w *writer) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.there.Files[name]; old != "" {
		w.stale[w.keyOf(name, old)], w.unlisted = true, true
	}
	delete(w.there.Files, name)
	delete(w.unfit, name)
}

// refuse leaves out a name that can't be mirrored. Another try can't help before it changes.
func (w *writer) refuse(name string, err error) {
	w.drop(name)
	w.mu.Lock()
	w.unfit[name] = true
	w.mu.Unlock()
	w.cfg.Log.Warn().Err(err).Str("instance", w.instance).Msg("a file of the store isn't mirrored")
}

// early is how long it is until the next list may be written; at most 0 from then on.
func (w *writer) early() time.Duration {
	if w.listed.IsZero() {
		return 0
	}
	return w.cfg.Pace - time.Since(w.listed)
}

// settle writes the list if it differs, then removes what it doesn't have any more. What was sent must be the store as it was at one moment: a
// list of a part of the changes would have a reservation's end without what replaced it.
func (w *writer) settle(ctx context.Context) error {
	if !w.dirty() {
		w.mirror.marks.listed()
		return nil
	}
	w.there.Number++
	l := w.there
	l.Written = time.Now().UTC()
	l.Complete = true
	l.Birth, _ = w.cfg.Birth()
	if err := w.writeList(ctx, w.vault, &l); err != nil {
		return err
	}
	w.there, w.unlisted, w.listed = l, false, time.Now()
	w.mirror.marks.listed()
	w.mirror.mu.Lock()
	w.mirror.status.Complete, w.mirror.status.Listed = l.Complete, l.Written
	w.mirror.mu.Unlock()
	for key := range w.stale {
		w.stale[key] = false
		if err := w.remove(ctx, key); err != nil {
			return err
		}
		delete(w.stale, key)
	}
	return nil
}
