package image

import (
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Waste is how many seconds a user's images may cost that then aren't used: as long as they were
// unpacked, and a second for each that is refused. A payback-th of the time that passes is given
// back. Beyond it the user's next images wait.
var Waste = limit.Limit{Name: "image-waste", Per: "user", Each: 30}

const payback = 10

// waste is what the images have cost that weren't used, of each user who has that to pay back. Its
// zero value is ready to be used, by several goroutines.
type waste struct {
	mu sync.Mutex
	// until is when all is paid back, since the machine's boot.
	until map[string]time.Duration
}

// add notes what an image has cost.
func (w *waste) add(user string, now, cost time.Duration) {
	if cost <= 0 {
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
	until[user] = max(until[user], now) + cost*payback
	w.until = until
}

// wait is how long a user's next image has to wait.
func (w *waste) wait(user string, now time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.until[user]-now-time.Duration(Waste.Each)*time.Second*payback)
}

// mayPull is Transient while a user's images have cost too much for nothing.
func (s *Store) mayPull(spec node.ImageSpec, t target) error {
	wait := s.waste.wait(spec.User, s.cfg.Clock.Boot())
	if wait == 0 {
		return nil
	}
	Waste.Reached()
	return node.Errorf(node.Transient, "cannot pull %s yet: too many of this user's images were refused or given up while they were unpacked; the next is fetched in %s", t.text, wait.Round(time.Second))
}

// charge has a user pay for a pull that has failed. What the node's own state has spoilt costs nothing.
func (s *Store) charge(j *job, err error) {
	cost := j.unpacked()
	switch kind := node.KindOf(err); {
	case s.alive.Err() != nil || kind == node.NoSpace:
		return
	case kind == node.Refused || kind == node.Invalid:
		cost += time.Second
	}
	s.waste.add(j.spec.User, s.cfg.Clock.Boot(), cost)
}
