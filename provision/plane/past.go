package plane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"go.uber.org/zap"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// The bounds of the history: events of everybody, and how long one is kept after its last time.
const (
	mostEvents = 2000
	eventsFor  = 30 * 24 * time.Hour
)

// share is what the node's own events, and those of all users without a workload on the node, may have when there are too many: others don't push
// the node's below it, and strangers, whose keys are free, nobody's of the rest.
const share = mostEvents / 4

// ahead is how far an event may be in the future of a trusted clock. One further ahead was made while the clock was wrong, and is the first to go.
const ahead = time.Hour

// prunePause is the least time between two looks for events that are too many.
const prunePause = 2 * time.Second

// Past is the controller that keeps the history bounded. What goes by age goes only while the clock is trusted as far as removals need it. Beyond the
// bound the oldest events go of the user who has most, of those of whom more may go than of others.
type Past struct {
	// Lost is why the history of before couldn't be used, empty when it could: see Plane.Lost.
	Lost string
	// Restored reports whether all users are known who have a workload on the node; nil for always. Before it twice as many events are kept.
	Restored func() bool
	Log      zerolog.Logger
}

// Name implements controller.Controller.
func (Past) Name() string { return "Past" }

// Inputs implements controller.Controller.
func (Past) Inputs() []controller.Input {
	return []controller.Input{weak(&work.Event{}), weak(&work.Workload{}), weak(&host.Clock{})}
}

// Outputs implements controller.Controller.
func (Past) Outputs() []controller.Output {
	return []controller.Output{{Type: work.EventsType, Kind: controller.OutputShared}}
}

// Run implements controller.Controller.
func (p Past) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	return guarded(p.Log, "history", func() error {
		if err := p.tellLost(ctx, r); err != nil {
			return err
		}
		for {
			if err := p.prune(ctx, r); err != nil {
				return err
			}
			timer := time.NewTimer(backoff.Around(time.Hour))
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-r.EventCh():
			case <-timer.C:
			}
			timer.Stop()
			if !wait(ctx, prunePause) {
				return nil
			}
		}
	})
}

// tellLost makes the event of a history that can't be used, once.
func (p Past) tellLost(ctx context.Context, r controller.Writer) error {
	if p.Lost == "" {
		return nil
	}
	reason, _ := work.ReasonOf(work.ReasonHistoryLost)
	return put(ctx, r, work.NewEvent("history-lost", work.EventSpec{
		Kind: reason.Kind, Reason: reason.Name, Object: "node", Message: p.Lost, Count: 1, First: time.Now().UTC(), Last: time.Now().UTC(),
	}))
}

func (p Past) prune(ctx context.Context, r controller.ReaderWriter) error {
	all, err := safe.ReaderListAll[*work.Event](ctx, r)
	if err != nil {
		return errors.Wrap(err, "cannot list the events")
	}
	var events []*work.Event
	for e := range all.All() {
		events = append(events, e)
	}
	trusted := trust(ctx, r) == clock.Remove.String()
	here, err := users(ctx, r)
	if err != nil {
		return err
	}
	most := mostEvents
	if p.Restored != nil && !p.Restored() {
		most *= 2
	}
	for _, e := range surplus(events, here, time.Now(), trusted, most) {
		if err := r.Destroy(ctx, e.Metadata(), controller.WithOwner(e.Metadata().Owner())); ignoreMissing(err) != nil {
			return errors.Wrap(err, "cannot remove an old event")
		}
	}
	return nil
}

// users are those who have a workload on the node.
func users(ctx context.Context, r controller.Reader) (map[string]bool, error) {
	all, err := safe.ReaderListAll[*work.Workload](ctx, r)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the workloads")
	}
	out := map[string]bool{}
	for w := range all.All() {
		if !lifecycle.Phase(w.TypedSpec().Phase).Tombstone() {
			out[w.TypedSpec().User] = true
		}
	}
	return out, nil
}

// surplus are the events that are too old, and those beyond the most; here are the users who have a workload on the node.
func surplus(all []*work.Event, here map[string]bool, now time.Time, trusted bool, most int) []*work.Event {
	early := func(e *work.Event) bool { return trusted && e.TypedSpec().Last.Sub(now) > ahead }
	slices.SortFunc(all, func(a, b *work.Event) int {
		if early(a) != early(b) {
			return map[bool]int{true: -1, false: 1}[early(a)]
		}
		return cmp.Or(a.TypedSpec().Last.Compare(b.TypedSpec().Last), cmp.Compare(a.Metadata().ID(), b.Metadata().ID()))
	})
	var out []*work.Event
	of, strangers, left := map[string][]*work.Event{}, 0, 0
	for _, e := range all {
		user := e.TypedSpec().User
		if trusted && now.Sub(e.TypedSpec().Last) > eventsFor {
			out = append(out, e)
			continue
		}
		of[user] = append(of[user], e)
		if left++; user != "" && !here[user] {
			strangers++
		}
	}
	for ; left > most; left-- {
		user := loses(of, here, strangers)
		out = append(out, of[user][0])
		of[user] = of[user][1:]
		if user != "" && !here[user] {
			strangers--
		}
	}
	return out
}

// loses is the user, or the node, who loses the next event: the one with most, of those of whom more may go.
func loses(of map[string][]*work.Event, here map[string]bool, strangers int) string {
	most, found := "", false
	for user, events := range of {
		stranger := user != "" && !here[user]
		switch {
		case len(events) == 0,
			strangers > share && !stranger,
			strangers <= share && stranger,
			user == "" && len(events) <= share:
			continue
		}
		if n := len(of[most]); !found || len(events) > n || len(events) == n && user > most {
			most, found = user, true
		}
	}
	return most
}
