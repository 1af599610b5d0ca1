package mirror

import (
	"context"
	"maps"
	"slices"
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
	// While a change of the store ended less than busyFor ago, one object is sent, removed or compared at a time, and each is followed by a pause of backShare times as long as
	// it took, and of longestBack at most: a place far away takes its time without the processors. Once a change has waited for longer than patience the
	// mirror goes on at its full speed.
	busyFor     = 100 * time.Millisecond
	backShare   = 15
	longestBack = 400 * time.Millisecond
	patience    = 10 * time.Second
	// mostRead and mostBytes bound what is read before it is sent, and longestRead for how long the store may change meanwhile until others are told how far
	// the mirror is.
	mostRead    = 512
	mostBytes   = 8 << 20
	longestRead = 10 * time.Second
)

// errLater ends a reading that isn't whole: there is something else to do first.
var errLater = errors.New("the store changes while it is read")

// writer is what Run knows of the mirror: what is there.
type writer struct {
	place
	mirror *Mirror
	cfg    Config

	is    compared
	vault *seal.Vault
	last  listing

	// mu guards the fields below while a batch is sent.
	mu sync.Mutex
	// there is the next list: the contents that are there. unlisted is whether the list on the mirror differs.
	there    list
	unlisted bool
	// stale are the objects to be removed once the list is written.
	stale leftovers
	// unfit are the names that can't be mirrored.
	unfit map[string]bool
}

// keyOf is the key of the object that has a content of a name.
func (w *writer) keyOf(name, hash string) persist.Key {
	return persist.KeyOf(w.vault.Hidden(kindFile, contentName(name, hash)))
}

// content is what a name had when it was read: nothing when it was gone, or when it can't be mirrored. kept is why it couldn't be read; it is what the
// mirror has then.
type content struct {
	body  []byte
	gone  bool
	unfit error
	kept  error
}

// content reads a name that has a mark. One that can't be read now is kept as the mirror has it, unless the store has changed it: a bad sector under one
// file must not hold up all others.
func (w *writer) content(name string, at mark) (content, error) {
	body, err := w.cfg.Source.Read(name)
	switch node.KindOf(err) {
	case "":
		return content{body: body}, nil
	case node.NotExist:
		return content{gone: true}, nil
	case node.Invalid:
		return content{unfit: err}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, listed := w.there.Files[name]; listed && at.checked {
		return content{kept: err}, nil
	}
	return content{}, err
}

// read reads all names that wait, as they are at one moment, and takes them. nil when they are too large to be held in memory. It ends with
// errLater when somebody asks for something, which stays asked for, and when there was no such moment for too long.
func (w *writer) read(ctx context.Context, asks chan struct{}, longest time.Duration) (map[string]content, error) {
	known, numbers := map[string]content{}, map[string]uint64{}
	size := 0
	over := time.NewTimer(longest)
	defer over.Stop()
	for {
		some, whole := w.mirror.marks.unread(numbers)
		if whole {
			return known, nil
		}
		wake := w.mirror.marks.wake // the end of the change of the store that is under way
		if len(some) > 0 {
			wake = nil
		}
		if err := goOn(ctx, wake, asks, over.C); err != nil {
			return nil, err
		}
		for name, at := range some {
			c, err := w.content(name, at)
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

// goOn waits for wake, or not at all if that is nil, and returns an error if the reading is to end.
func goOn(ctx context.Context, wake, asks chan struct{}, over <-chan time.Time) error {
	if wake == nil {
		wake = make(chan struct{})
		close(wake)
	}
	select { // of several that are ready any one may be taken: the others' turn comes
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return errLater
	case <-asks:
		select {
		case asks <- struct{}{}: // it is for the caller
		default: // somebody has asked again
		}
		return errLater
	case <-wake:
	}
	return nil
}

// sendAll sends the contents that read has taken, and writes the list. After a failure those that weren't sent wait again.
func (w *writer) sendAll(ctx context.Context, known map[string]content) error {
	err := each(ctx, w.mirror.marks, slices.Collect(maps.Keys(known)), func(name string) error {
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
	return each(ctx, w.mirror.marks, slices.Collect(maps.Keys(names)), func(name string) error {
		c, err := w.content(name, names[name])
		if err == nil {
			err = w.sendOne(ctx, name, c)
		}
		if err == nil {
			w.mirror.marks.done(name, names[name])
		}
		return err
	})
}

// givesWay reports whether to make room for the engine, when the oldest change has waited for age: while the store changes, and not when the mirror
// falls behind.
func givesWay(busy bool, age time.Duration) bool { return busy && age <= patience }

// pauseAfter is how long to step back after an object that took some time: not at all unless the mirror gives way.
func pauseAfter(took time.Duration, busy bool, age time.Duration) time.Duration {
	if !givesWay(busy, age) {
		return 0
	}
	return min(backShare*took, longestBack)
}

// takeTurn waits for the one turn as long as givesWay says so, and no longer than ctx; leave gives it back.
func takeTurn(ctx context.Context, turn chan struct{}, givesWay func() bool) (leave func()) {
	again := time.NewTicker(busyFor)
	defer again.Stop()
	for givesWay() {
		select {
		case turn <- struct{}{}:
			return func() { <-turn }
		case <-again.C:
		case <-ctx.Done():
			return func() {}
		}
	}
	return func() {}
}

// stepBack makes room for the engine while the store changes: the mirror takes the same processors, and often the same disk or link.
func stepBack(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// each does something for names, for some of them at a time, or one by one while it gives way, and returns the first error.
func each(ctx context.Context, m *marks, names []string, do func(name string) error) error {
	slots := make(chan struct{}, atOnce)
	failed := make(chan error, len(names))
	var wait sync.WaitGroup
	alone := make(chan struct{}, 1)
	oldest := m.oldestChange(time.Now())
	for _, name := range names {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			failed <- supervise.Catch("mirror of "+name, func() error {
				defer takeTurn(ctx, alone, func() bool { now := time.Now(); return givesWay(m.busy(now), now.Sub(oldest)) })()
				began := time.Now()
				defer func() {
					now := time.Now()
					stepBack(ctx, pauseAfter(now.Sub(began), m.busy(now), now.Sub(oldest)))
				}()
				return do(name)
			})
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
	case c.kept != nil:
		w.pass(name, c.kept, "a file of the store can't be read: the mirror keeps what it has of it")
		return nil
	}
	body := c.body
	hash := sum(body)
	key := w.keyOf(name, hash)
	w.mu.Lock()
	same, there := w.there.Files[name] == hash, w.stale.keys[key].there
	if same {
		delete(w.unfit, name)
	}
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
			w.stale.keys[key] = leftover{dropped: time.Now()}
			return err
		}
	}
	w.drop(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stale.keys, key)
	w.there.Files[name], w.unlisted = hash, true
	return nil
}

// drop takes a name out of the next list, and has its object removed after that.
func (w *writer) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.there.Files[name]; old != "" {
		w.stale.keys[w.keyOf(name, old)], w.unlisted = leftover{there: true, dropped: time.Now()}, true
		w.stale.fresh++
	}
	delete(w.there.Files, name)
	delete(w.unfit, name)
}

// refuse leaves out a name that can't be mirrored. Another try can't help before it changes.
func (w *writer) refuse(name string, err error) {
	w.drop(name)
	w.pass(name, err, "a file of the store isn't mirrored")
}

// pass counts a name whose content can't be sent.
func (w *writer) pass(name string, err error, what string) {
	w.mu.Lock()
	w.unfit[name] = true
	w.mu.Unlock()
	w.cfg.Log.Warn().Err(err).Str("instance", w.instance).Str("name", name).Msg(what)
}
