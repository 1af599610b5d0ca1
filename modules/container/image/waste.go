package image

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Waste is how many seconds a user's images may cost that then aren't used: as long as they were
// unpacked, and a second for each that is refused. A payback-th of the time that passes is given
// back. Beyond it the user's next images wait, for mostWait at the longest.
var Waste = limit.Limit{Name: "image-waste", Per: "user", Each: 30}

const (
	payback  = 10
	mostWait = time.Hour
)

// waste is the cost of images that weren't used, by user. It is safe for concurrent use.
type waste struct {
	clock clock.Clock

	mu sync.Mutex
	// until is when a user has paid back all, since the machine's boot.
	until map[string]time.Duration
	// idle are the costs of images by label that no container was made of yet.
	idle map[string]idle
}

// idle is the cost of an image that no container was made of yet.
type idle struct {
	user string
	cost time.Duration
}

// free is how long it takes to pay back a user's free allowance.
var free = time.Duration(Waste.Each) * time.Second * payback

// add adds the cost of an image.
func (w *waste) add(user string, now, cost time.Duration) {
	if cost <= 0 || user == node.OwnUser {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	until := make(map[string]time.Duration, len(w.until)+1)
	for user, then := range w.until {
		if then > now {
			until[user] = then
		}
	}
	until[user] = min(max(until[user], now)+cost*payback, now+free+mostWait)
	w.until = until
}

// wait is how long a user's next image has to wait.
func (w *waste) wait(user string, now time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.until[user]-now-free)
}

// check is Transient while a user has wasted too much.
func (w *waste) check(user string, ref source.Reference) error {
	wait := w.wait(user, w.clock.Boot())
	if wait == 0 {
		return nil
	}
	Waste.Reached()
	return node.Errorf(node.Transient, "cannot pull %s yet: too many of this user's images were refused or given up; the next can be fetched in %s", ref.Text, wait.Round(time.Second))
}

// charge has a user pay for a failed pull when the image or the user has ended it.
// Faults of the node cost nothing, but for a full disk: a layer may have filled it.
func (w *waste) charge(ctx context.Context, j *job, err error) {
	cost := j.unpacked()
	switch kind := node.KindOf(err); {
	case errors.Is(context.Cause(ctx), errClosed):
		return
	case kind == node.Refused || kind == node.Invalid:
		cost += time.Second
	case kind != node.NoSpace && ctx.Err() == nil:
		return
	}
	w.add(j.spec.User, w.clock.Boot(), cost)
}

// keep keeps the cost of an image until a container is made of it.
func (w *waste) keep(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle == nil {
		w.idle = map[string]idle{}
	}
	if cost := j.unpacked(); cost > 0 {
		w.idle[j.spec.Label] = idle{j.spec.User, cost}
	}
}

// forget forgets the cost of a label's image: a container is made of it, or it is charged.
func (w *waste) forget(label string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.idle, label)
}

// chargeUnused has a user pay for an image that was pulled for a label and never used.
func (w *waste) chargeUnused(label string) {
	w.mu.Lock()
	unused := w.idle[label]
	delete(w.idle, label)
	w.mu.Unlock()
	w.add(unused.user, w.clock.Boot(), unused.cost)
}
