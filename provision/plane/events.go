package plane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// mostPending bounds the events that wait to be written; beyond it one is dropped for each that comes, and counted. It is as many as the history keeps.
const mostPending = mostEvents

// repeats is how long after an event's last time the same one is a repetition of it.
const repeats = 10 * time.Minute

// recorder writes events. Whoever adds one never waits.
type recorder struct {
	log     zerolog.Logger
	dropped workload.Counter
	wake    chan struct{}

	mu      sync.Mutex
	pending []pendingEvent

	// newest are the newest resources of each kind of event, by eventKey; for run alone.
	newest map[string]last
	said   bool
}

// pendingEvent is an event that waits to be written. One with a reason in after is written only if an event with that reason is newer than the
// last of its own.
type pendingEvent struct {
	work.EventSpec
	after string
}

type last struct {
	id resource.ID
	at time.Time
}

func newRecorder(log zerolog.Logger) *recorder {
	return &recorder{log: log, dropped: &counter{}, wake: make(chan struct{}, 1)}
}

// add has an event written soon. When too many wait, the oldest goes of the user of whom most wait: one user's don't push out another's.
func (c *recorder) add(s pendingEvent) {
	c.mu.Lock()
	c.pending = append(c.pending, s)
	full := len(c.pending) > mostPending
	if full {
		at := c.crowded()
		c.pending = slices.Delete(c.pending, at, at+1)
	}
	c.mu.Unlock()
	if full {
		c.dropped.Increment()
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// crowded is the index of the oldest waiting event of the user of whom most wait. The caller holds mu.
func (c *recorder) crowded() int {
	of := map[string]int{}
	most := c.pending[0].User
	for _, s := range c.pending {
		if of[s.User]++; of[s.User] > of[most] {
			most = s.User
		}
	}
	return slices.IndexFunc(c.pending, func(s pendingEvent) bool { return s.User == most })
}

// run makes the events' resources until ctx is done. One that can't be made is dropped and counted: it must not keep
// later ones from being made.
func (c *recorder) run(ctx context.Context, r controller.Runtime) error {
	if err := c.load(ctx, r); err != nil {
		return err
	}
	for {
		for ctx.Err() == nil {
			s, some := c.next()
			if !some {
				break
			}
			spec, wanted := c.due(s)
			if !wanted {
				continue
			}
			err := guarded(c.log, "event", func() error { return c.write(ctx, r, spec) })
			if err != nil && ctx.Err() != nil {
				c.back(s)
				break
			}
			if c.tell(err); err != nil {
				c.dropped.Increment()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

// next takes the oldest of the waiting events.
func (c *recorder) next() (s pendingEvent, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return s, false
	}
	s = c.pending[0]
	c.pending = slices.Delete(c.pending, 0, 1)
	return s, true
}

// back puts an event back that couldn't be written because the controller ends: the next run writes it.
func (c *recorder) back(s pendingEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = slices.Insert(c.pending, 0, s)
}

// tell logs the first of failures in a row.
func (c *recorder) tell(err error) {
	if err != nil && !c.said {
		c.log.Error().Err(err).Str("step", "event").Msg("cannot write events: they are dropped and counted")
	}
	c.said = err != nil
}

// load reads what the history has of the last run, so that repetitions are counted over restarts.
func (c *recorder) load(ctx context.Context, r controller.Reader) error {
	c.newest = map[string]last{}
	all, err := r.List(ctx, work.NewEvent("", work.EventSpec{}).Metadata())
	if err != nil {
		return err
	}
	for _, each := range all.Items {
		e, ok := each.(*work.Event)
		if !ok {
			continue
		}
		s := e.TypedSpec()
		if key := eventKey(*s); s.Last.After(c.newest[key].at) {
			c.newest[key] = last{e.Metadata().ID(), s.Last}
		}
	}
	return nil
}

// due is an event as it is to be written, if its condition holds by the events so far, those of earlier processes included. Its date is then
// later than that of the event that it ends, also if the clock was set back: the next process goes by dates.
func (c *recorder) due(s pendingEvent) (spec work.EventSpec, wanted bool) {
	spec = s.EventSpec
	if s.after == "" {
		return spec, true
	}
	reason, known := work.ReasonOf(s.after)
	other := spec
	other.Kind, other.Reason, other.Operation = reason.Kind, reason.Name, reason.Operation
	begun := c.newest[eventKey(other)].at
	if !known || !begun.After(c.newest[eventKey(spec)].at) {
		return spec, false
	}
	if !spec.Last.After(begun) {
		spec.Last = begun.Add(time.Nanosecond)
	}
	return spec, true
}

// write makes an event's resource, or counts its repetition.
func (c *recorder) write(ctx context.Context, r controller.Runtime, s work.EventSpec) error {
	key := eventKey(s)
	s.Count, s.First = 1, s.Last
	before, known := c.newest[key]
	repeated := known && s.Last.Sub(before.at) < repeats && !s.Last.Before(before.at)
	id := before.id
	if !repeated {
		id = fmt.Sprintf("%s-%d", key, s.Last.UnixNano())
	}
	next := work.NewEvent(id, s)
	if s.User != "" {
		next.Metadata().Labels().Set(resources.LabelUser, s.User)
	}
	err := safe.WriterModify(ctx, r, next, func(is *work.Event) error {
		if was := is.TypedSpec(); repeated && was.Count > 0 && is.Metadata().Version().String() != "undefined" {
			s.Count, s.First = was.Count+1, was.First
		}
		set(is, work.NewEvent(id, s))
		if s.User != "" {
			is.Metadata().Labels().Set(resources.LabelUser, s.User)
		}
		return nil
	})
	if err == nil {
		c.remember(key, last{id, s.Last})
	}
	return err
}

// remember keeps the newest resource of a kind of event, of about as many kinds as the history has events: when there are twice as many, the older
// half is forgotten.
func (c *recorder) remember(key string, newest last) {
	c.newest[key] = newest
	if len(c.newest) < 2*mostEvents {
		return
	}
	all := slices.SortedFunc(maps.Keys(c.newest), func(a, b string) int { return c.newest[a].at.Compare(c.newest[b].at) })
	for _, old := range all[:mostEvents] {
		delete(c.newest, old)
	}
}

// eventKey identifies repetitions: the same has happened to the same object.
func eventKey(s work.EventSpec) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.Kind, s.Reason, s.Operation, s.Object, s.User}, "\x00")))
	return hex.EncodeToString(sum[:8])
}
