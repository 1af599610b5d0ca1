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
	"github.com/croft-edge/croft/pkg/resources/work"
)

// The bounds of the history: events of everybody, and how long one is kept after its last time.
const (
	mostEvents = 2000
	eventsFor  = 30 * 24 * time.Hour
)

// Past is the controller that keeps the history bounded. Beyond the bound the oldest events go of the user who has most:
// one user's don't push out another's, nor the node's own.
type Past struct {
	// Lost is why the history of before was set aside, empty when it wasn't: see Plane.Lost.
	Lost string
	Log  zerolog.Logger
}

// Name implements controller.Controller.
func (Past) Name() string { return "Past" }

// Inputs implements controller.Controller.
func (Past) Inputs() []controller.Input { return []controller.Input{weak(&work.Event{})} }

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
			if !wait(ctx, shortestPause) {
				return nil
			}
		}
	})
}

// tellLost makes the event of a history that was set aside, once.
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
	for _, e := range surplus(events, time.Now()) {
		if err := r.Destroy(ctx, e.Metadata(), controller.WithOwner(e.Metadata().Owner())); ignoreMissing(err) != nil {
			return errors.Wrap(err, "cannot remove an old event")
		}
	}
	return nil
}

// surplus are the events that are beyond the bounds.
func surplus(all []*work.Event, now time.Time) []*work.Event {
	slices.SortFunc(all, func(a, b *work.Event) int {
		return cmp.Or(a.TypedSpec().Last.Compare(b.TypedSpec().Last), cmp.Compare(a.Metadata().ID(), b.Metadata().ID()))
	})
	var out []*work.Event
	of := map[string][]*work.Event{}
	left := 0
	for _, e := range all {
		if now.Sub(e.TypedSpec().Last) > eventsFor {
			out = append(out, e)
			continue
		}
		of[e.TypedSpec().User] = append(of[e.TypedSpec().User], e)
		left++
	}
	for ; left > mostEvents; left-- {
		most := ""
		for user, events := range of {
			if len(events) > len(of[most]) || len(events) == len(of[most]) && user > most {
				most = user
			}
		}
		out = append(out, of[most][0])
		of[most] = of[most][1:]
	}
	return out
}
