package deploy

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Observation is one reservation's state at this moment.
type Observation struct {
	verdict.Verdict
	// Document is as it was signed, or as the explorer shows it where it wasn't signed here.
	Document *workload.Reservation
	Expires  time.Time
}

// Shows is an explorer that shows reservations.
type Shows interface {
	Get(ctx context.Context, id string) (explorer.Reservation, error)
	ListAll(ctx context.Context, user string) ([]explorer.Reservation, error)
}

// Observer asks an explorer for reservations and judges its answers.
type Observer struct {
	Explorer Shows
	// User is whose reservations Mine lists.
	User string
}

// Entry observes an entry's reservation. The newest result goes into the entry.
func (s *Observer) Entry(ctx context.Context, e *state.Entry) (Observation, error) {
	own, err := e.Reservation()
	if err != nil {
		return Observation{}, err
	}
	if e.ID == "" {
		return Observation{Verdict: verdict.Verdict{State: verdict.Unpushed}, Document: own, Expires: own.Expires()}, nil
	}
	out, err := s.observe(ctx, e.ID, own, e.Seen)
	if err == nil {
		e.Seen = out.Seen
	}
	return out, err
}

// ID observes a reservation that wasn't signed here.
func (s *Observer) ID(ctx context.Context, id string) (Observation, error) {
	return s.observe(ctx, id, nil, state.Seen{})
}

func (s *Observer) observe(ctx context.Context, id string, own *workload.Reservation, seen state.Seen) (Observation, error) {
	var shown explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = s.Explorer.Get(ctx, id)
		return err
	})
	if errors.Is(err, node.NotExist) && own != nil {
		return Observation{Verdict: verdict.Verdict{State: verdict.Lost, Seen: seen}, Document: own, Expires: own.Expires()}, nil
	}
	if err != nil {
		return Observation{}, err
	}
	return Judged(own, shown, seen), nil
}

// Judged is the observation of a reservation that an explorer has shown.
func Judged(own *workload.Reservation, shown explorer.Reservation, seen state.Seen) Observation {
	out := Observation{Verdict: verdict.Judge(own, shown, seen), Document: own}
	if own == nil {
		out.Document = &shown.Reservation
	}
	out.Expires = verdict.Expires(own, &shown.Reservation)
	return out
}

// All observes entries, in their order.
func (s *Observer) All(ctx context.Context, entries []*state.Entry) (map[*state.Entry]Observation, error) {
	out := map[*state.Entry]Observation{}
	for _, e := range entries {
		o, err := s.Entry(ctx, e)
		if err != nil {
			return nil, err
		}
		out[e] = o
	}
	return out, nil
}

// phase is the verdict's meaning for a plan. An answer that can't be believed counts as none: a
// lie of the explorer must neither delete nor make anything.
func phase(v verdict.Verdict) plan.Phase {
	switch {
	case v.State == verdict.Unpushed:
		return plan.Unpushed
	case v.State == verdict.Lost:
		return plan.Lost
	case v.State == verdict.Deleting:
		return plan.Ended
	case !v.Verified || v.Problem != "":
		return plan.Pending
	case v.State == workload.StateOK:
		return plan.Deployed
	case v.State == workload.StateError:
		return plan.Failed
	case workload.Ended(v.State):
		return plan.Ended
	}
	return plan.Pending
}

// Mine are the user's reservations that the explorer shows, in the order of signing, without
// those that the user's key hasn't signed.
func (s *Observer) Mine(ctx context.Context) ([]Observation, error) {
	var shown []explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = s.Explorer.ListAll(ctx, s.User)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Observation
	for _, one := range shown {
		if one.User == s.User && workload.Verify(&one.Reservation) == nil {
			out = append(out, Judged(nil, one, state.Seen{}))
		}
	}
	slices.SortStableFunc(out, func(a, b Observation) int { return a.Document.Created.Compare(b.Document.Created) })
	return out, nil
}

// mayLive reports whether a reservation isn't known to be over.
func mayLive(o Observation, now time.Time) bool {
	p := phase(o.Verdict)
	return p != plan.Ended && p != plan.Failed && now.Before(o.Expires)
}
