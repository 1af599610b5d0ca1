package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/store"
)

// openMirrors makes the mirrors of the store that opened gets. They run once it is open. Those that can't be made are down: none stops the node.
func (b *engineParts) openMirrors(with Config, opened *atomic.Pointer[store.FSStore], changed kick) {
	started := time.Now()
	c := mirrors.Config{
		Places: with.Mirrors, Recovery: with.RecoveryKey, Store: storeFolder(with.Config), Secrets: with.Secrets(), Log: with.Log,
		Birth: func() (string, []string) {
			s := opened.Load()
			return s.Birth().ID, s.Ancestors()
		},
		Changed: func(before, after mirrors.Status) {
			tellMirror(b.state.engine, before, after, started, time.Now().UTC())
			changed.kick()
		},
	}
	if len(c.Places) > 0 {
		var err error
		if c.Key, err = identity.Key(with.Config); err != nil {
			c.Fault = errors.Wrap(err, "cannot seal the mirrors of the store")
		}
	}
	b.mirrors = mirrors.New(c)
}

// mirrorsPart keeps the mirrors.
func (b *engineParts) mirrorsPart() supervise.Part {
	return supervise.Part{Name: "mirrors", Again: true, Run: func(ctx context.Context) error { return b.mirrors.Run(ctx) }}
}

// tellMirror tells what a try to bring a mirror up to date makes known, in a process that started at a time.
func tellMirror(to interface {
	Event(s work.EventSpec)
	EventAfter(reason string, s work.EventSpec)
}, before, after mirrors.Status, started, now time.Time) {
	if s, happened := mirrorEvent(before, after, now); happened {
		to.Event(s)
		return
	}
	if mirrorWorks(after, started) && !mirrorWorks(before, started) {
		// It may have been behind when an earlier process ended.
		to.EventAfter(work.ReasonMirrorBehind, mirrorEventOf(work.ReasonMirrorSynced, after, now))
	}
}

// mirrorEvent is what a try to bring a mirror up to date makes known: that the mirror falls behind, by failures or by being too slow, and that it isn't
// behind any more.
func mirrorEvent(before, after mirrors.Status, now time.Time) (work.EventSpec, bool) {
	switch {
	case after.Behind != "" && before.Behind == "":
		return mirrorEventOf(work.ReasonMirrorBehind, after, now), true
	case after.Behind == "" && before.Behind != "":
		return mirrorEventOf(work.ReasonMirrorSynced, after, now), true
	}
	return work.EventSpec{}, false
}

// mirrorEventOf is the event that a mirror is behind, or isn't any more.
func mirrorEventOf(name string, is mirrors.Status, now time.Time) work.EventSpec {
	message := is.Behind
	if name == work.ReasonMirrorSynced {
		message = fmt.Sprintf("%d files are left", is.Names)
	}
	reason, _ := work.ReasonOf(name)
	return work.EventSpec{Kind: reason.Kind, Reason: reason.Name, Object: "mirror/" + is.Instance, Message: message, Last: now}
}

// mirrorWorks reports whether a process that started at a time has brought a mirror up to date: nothing waits, or it has written a list. A list of an
// earlier process, and that nothing has waited for long in this one, say nothing.
func mirrorWorks(is mirrors.Status, started time.Time) bool {
	return is.Up && is.Complete && is.Behind == "" && (is.Names == 0 || is.Listed.After(started))
}

// mirrorCheck is the chore that compares the mirrors with the store: whoever keeps one may have lost something of it.
func (v *view) mirrorCheck() []hooks.Hook {
	if len(v.config.Mirrors) == 0 {
		return nil
	}
	daily, err := hooks.ParseCron("@daily")
	if err != nil {
		return nil // it is a constant
	}
	return []hooks.Hook{{
		Name: "croft/mirror-check", Schedule: daily, Timeout: time.Minute, Queue: "croft",
		Do: func(context.Context) error {
			if b := v.get(); b != nil {
				b.mirrors.Check()
			}
			return nil
		},
	}}
}

// lookMirrors are the mirrors as resources.
func (b *engineParts) lookMirrors() []resource.Resource {
	var out []resource.Resource
	for _, s := range b.mirrors.Status() {
		out = append(out, host.NewStore(host.StoreSpec{Mirror: &host.MirrorSpec{
			Instance: s.Instance, Place: config.Masked(s.Place), Up: s.Up, Lag: s.Names, Oldest: s.Oldest.UTC(), Complete: s.Complete, Listed: s.Listed.UTC(),
			Held: s.Held != "", Error: s.Error, Since: s.Since.UTC(), Unfit: s.Unfit, Latency: s.Latency,
		}}))
	}
	return out
}
