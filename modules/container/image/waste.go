package image

import (
	"context"
	"sync"
	"time"

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

// waste is what the images have cost that weren't used, of each user who has that to pay back. Its
// zero value is ready to be used, by several goroutines.
type waste struct {
	mu sync.Mutex
	// until is when all is paid back, since the machine's boot.
	until map[string]time.Duration
}

// free is how long it takes to pay back what a user has free.
var free = time.Duration(Waste.Each) * time.Second * payback

// add notes what an image has cost.
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

// mayGoOn is Transient while a user's images have cost too much for nothing.
func (a *attempt) mayGoOn() error {
	s := a.store
	wait := s.waste.wait(a.job.spec.User, s.cfg.Clock.Boot())
	if wait == 0 {
		return nil
	}
	Waste.Reached()
	return node.Errorf(node.Transient, "cannot pull %s yet: too many of this user's images were refused or given up; the next can be fetched in %s", a.job.target.text, wait.Round(time.Second))
}

// charge has a user pay for a pull that has come to nothing by what was pulled, or by the user. What
// the node has spoilt costs nothing, but for a full disk: a layer may have filled it.
func (s *Store) charge(ctx context.Context, j *job, err error) {
	cost := j.unpacked()
	switch kind := node.KindOf(err); {
	case s.alive.Err() != nil:
		return
	case kind == node.Refused || kind == node.Invalid:
		cost += time.Second
	case kind != node.NoSpace && ctx.Err() == nil:
		return
	}
	s.waste.add(j.spec.User, s.cfg.Clock.Boot(), cost)
}

// idle is what an image has cost on which no container stands yet.
type idle struct {
	user string
	cost time.Duration
}

// keepCost keeps what an image has cost until a container is made of it.
func (s *Store) keepCost(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cost := j.unpacked(); cost > 0 {
		s.idle[j.spec.Label] = idle{j.spec.User, cost}
	}
}

// forgetCost forgets what a label's image has cost: a container is made of it, or it is charged.
func (s *Store) forgetCost(label string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.idle, label)
}

// chargeUnused has a user pay for an image that was pulled for a label and never used.
func (s *Store) chargeUnused(label string) {
	s.mu.Lock()
	u := s.idle[label]
	delete(s.idle, label)
	s.mu.Unlock()
	s.waste.add(u.user, s.cfg.Clock.Boot(), u.cost)
}
