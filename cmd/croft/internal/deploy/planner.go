package deploy

import (
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// Planner makes the input of package plan, and tidies the state after an observation.
type Planner struct {
	composer *composer
	observer *Observer
	ledger   *ledger
	now      func() time.Time
}

// Wanted makes the planner's input of the project file. Each workload is
// checked as it would be pushed, so that nothing is pushed of a file that
// holds a mistake.
func (p *Planner) Wanted(f *project.File) ([]plan.Wanted, error) {
	if err := f.CheckKeys(p.composer.open); err != nil {
		return nil, err
	}
	var out []plan.Wanted
	for _, w := range f.Workloads {
		if err := w.Check(p.composer.user()); err != nil {
			return nil, err
		}
		digest, err := p.composer.digest(w)
		if err != nil {
			return nil, err
		}
		out = append(out, plan.Wanted{
			Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network, Digest: digest, Duration: w.Duration, Uses: w.Uses(),
		})
	}
	return out, nil
}

// Known makes the planner's input of observations.
func (p *Planner) Known(seen map[*state.Entry]Observation) ([]plan.Known, error) {
	var out []plan.Known
	for _, name := range p.ledger.Names() {
		e := p.ledger.Current[name]
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

// Outside are the user's networks that may be on a node and that aren't in the state. The explorer is asked when wanted has a network that the state
// doesn't know.
func (p *Planner) Outside(ctx context.Context, wanted []plan.Wanted) ([]plan.Outside, error) {
	if !slices.ContainsFunc(wanted, func(w plan.Wanted) bool {
		return w.Type == workload.TypeNetwork && (p.ledger.Current[w.Name] == nil || p.ledger.Current[w.Name].Network != w.Network)
	}) {
		return nil, nil
	}
	all, err := p.observer.Mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []plan.Outside
	for _, o := range newestNetworks(all) {
		if mayLive(o, p.now()) && !p.ledger.holds(o.Document.ID) {
			out = append(out, plan.Outside{Node: o.Document.NodeID, Network: networkName(o), ID: o.Document.ID})
		}
	}
	return out, nil
}

// Tidy forgets the leaving entries whose end was seen.
func (p *Planner) Tidy(seen map[*state.Entry]Observation) error {
	for _, e := range append([]*state.Entry(nil), p.ledger.Leaving...) {
		o, ok := seen[e]
		gone := o.Verified && o.Problem == "" && workload.Ended(o.State)
		if ok && (gone || o.Document.Created.Add(o.Document.Duration).Before(p.now()) && o.Expires.Before(p.now())) {
			p.ledger.Gone(e)
		}
	}
	p.tidyBefore(seen)
	return p.ledger.save()
}

// tidyBefore forgets the replaced entries that have ended, and those that have failed once
// the current entry is deployed.
func (p *Planner) tidyBefore(seen map[*state.Entry]Observation) {
	for _, name := range p.ledger.Names() {
		e := p.ledger.Current[name]
		deployed := phase(seen[e].Verdict) == plan.Deployed
		for _, b := range e.Before {
			o, ok := seen[b]
			if !ok {
				continue
			}
			ph := phase(o.Verdict)
			if ph == plan.Ended || deployed && ph == plan.Failed || o.Expires.Before(p.now()) {
				e.Drop(b)
			}
		}
		if phase(seen[e].Verdict) == plan.Ended || seen[e].Document != nil && !seen[e].Expires.After(p.now()) {
			p.back(e, seen)
		}
	}
}

// back makes the replaced entry that still runs the current one again, once e is over.
func (p *Planner) back(e *state.Entry, seen map[*state.Entry]Observation) {
	for i := len(e.Before) - 1; i >= 0; i-- {
		if phase(seen[e.Before[i]].Verdict) == plan.Deployed {
			e.Before = e.Before[:i+1]
			p.ledger.Back(e)
			return
		}
	}
}
