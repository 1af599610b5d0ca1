package daemon

import (
	"context"
	"fmt"
	"os"
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
	"github.com/croft-edge/croft/provision/persist/secret"
	"github.com/croft-edge/croft/provision/store"
)

// secrets are the secrets that the settings name.
func secrets(c config.Config) secret.Provider {
	return secret.First(secret.Credentials(os.Getenv(secret.CredentialsVariable)), secret.Folder(c.SecretsDir))
}

// openMirrors makes the mirrors of the store that opened gets. They run once it is open. Those that can't be made are down: none stops the node.
func (b *engineParts) openMirrors(with Config, opened *atomic.Pointer[store.FSStore], changed kick) {
	c := mirrors.Config{
		Places: with.Mirrors, Recovery: with.RecoveryKey, Store: storeFolder(with.Config), Secrets: secrets(with.Config), Log: with.Log,
		Birth: func() (string, []string) {
			s := opened.Load()
			return s.Birth().ID, s.Ancestors()
		},
		Changed: func(before, after mirrors.Status) {
			if s, happened := mirrorEvent(before, after, time.Now().UTC()); happened {
				b.state.engine.Event(s)
			}
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

// mirrorEvent is what a try to bring a mirror up to date makes known: that the mirror falls behind, by failures or by being too slow, and that it isn't
// behind any more.
func mirrorEvent(before, after mirrors.Status, now time.Time) (work.EventSpec, bool) {
	name := work.ReasonMirrorBehind
	message := after.Behind
	switch {
	case after.Behind != "" && before.Behind == "":
	case after.Behind == "" && before.Behind != "":
		name, message = work.ReasonMirrorSynced, fmt.Sprintf("%d files are left", after.Names)
	default:
		return work.EventSpec{}, false
	}
	reason, _ := work.ReasonOf(name)
	return work.EventSpec{Kind: reason.Kind, Reason: reason.Name, Object: "mirror/" + after.Instance, Message: message, Last: now}, true
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
