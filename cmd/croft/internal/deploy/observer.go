package deploy

import (
	"context"
	"errors"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Observation is what is known of one reservation at this moment.
type Observation struct {
	verdict.Verdict
	// Document is as it was signed, or as the explorer shows it where it wasn't signed here.
	Document *workload.Reservation
	Expires  time.Time
}

// Observe asks the explorer for an entry's reservation and judges the answer.
// What was seen goes into the entry.
func (d *Deployer) Observe(ctx context.Context, e *state.Entry) (Observation, error) {
	own, err := e.Reservation()
	if err != nil {
		return Observation{}, err
	}
	if e.ID == "" {
		return Observation{Verdict: verdict.Verdict{State: verdict.Unpushed}, Document: own, Expires: own.Expires()}, nil
	}
	out, err := d.observe(ctx, e.ID, own, e.Seen)
	if err == nil {
		e.Seen = out.Seen
	}
	return out, err
}

// ObserveID does the same for a reservation that wasn't signed here.
func (d *Deployer) ObserveID(ctx context.Context, id string) (Observation, error) {
	return d.observe(ctx, id, nil, state.Seen{})
}

func (d *Deployer) observe(ctx context.Context, id string, own *workload.Reservation, seen state.Seen) (Observation, error) {
	var shown explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = d.Explorer.Get(ctx, id)
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

// Judged is the observation of what an explorer has shown.
func Judged(own *workload.Reservation, shown explorer.Reservation, seen state.Seen) Observation {
	out := Observation{Verdict: verdict.Judge(own, shown, seen), Document: own}
	if own == nil {
		out.Document = &shown.Reservation
	}
	out.Expires = verdict.Expires(own, &shown.Reservation)
	return out
}

// ObserveAll observes the state's current entries, then its leaving ones.
func (d *Deployer) ObserveAll(ctx context.Context) (map[*state.Entry]Observation, error) {
	out := map[*state.Entry]Observation{}
	for _, e := range d.State.All() {
		o, err := d.Observe(ctx, e)
		if err != nil {
			return nil, err
		}
		out[e] = o
	}
	return out, nil
}

// Known makes the planner's input of what was observed.
func (d *Deployer) Known(seen map[*state.Entry]Observation) ([]plan.Known, error) {
	var out []plan.Known
	for _, name := range d.State.Names() {
		e := d.State.Current[name]
		o := seen[e]
		hash, err := hashOf(e)
		if err != nil {
			return nil, err
		}
		older := runsInPlaceOf(e, func(b *state.Entry) (Observation, error) { return seen[b], nil })
		out = append(out, plan.Known{
			Name: name, Type: e.Type, Node: e.Node, Network: e.Network, ID: e.ID, Digest: e.Digest,
			Duration: e.Duration, Created: o.Document.Created, Expires: o.Expires, Phase: phase(o.Verdict), Why: o.Error, Uses: e.Uses, Hash: hash, Hashes: e.Hashes,
			Named: containerName(e) != "", Older: older,
		})
	}
	return out, nil
}

// phase is what a plan may rest on. What can't be believed counts as no
// answer: a lie of the explorer must neither delete nor make anything.
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
