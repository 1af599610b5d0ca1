package deploy

import (
	"context"
	"slices"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// Outside are the user's networks that may be on a node and that no entry of the
// state stands for. The explorer is asked when wanted has a network that the state
// doesn't know.
func (d *Deployer) Outside(ctx context.Context, wanted []plan.Wanted) ([]plan.Outside, error) {
	if !slices.ContainsFunc(wanted, func(w plan.Wanted) bool {
		return w.Type == workload.TypeNetwork && (d.State.Current[w.Name] == nil || d.State.Current[w.Name].Network != w.Network)
	}) {
		return nil, nil
	}
	all, err := d.mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []plan.Outside
	for _, o := range newestNetworks(all) {
		if d.mayLive(o) && !d.stands(o.Document.ID) {
			out = append(out, plan.Outside{Node: o.Document.NodeID, Network: networkName(o), ID: o.Document.ID})
		}
	}
	return out, nil
}

// newestNetworks are the networks of all without those that were updated since: a
// node has the one of a name that was signed last.
func newestNetworks(all []Observation) []Observation {
	type place struct{ node, network string }
	seen := map[place]bool{}
	var out []Observation
	for _, o := range slices.Backward(all) {
		at := place{o.Document.NodeID, networkName(o)}
		if at.network == "" || seen[at] || phase(o.Verdict) == plan.Failed {
			continue
		}
		seen[at] = true
		out = append(out, o)
	}
	return out
}

// networkName is a network's own name; empty for what isn't one.
func networkName(o Observation) string {
	if o.Document.Type != workload.TypeNetwork {
		return ""
	}
	data, err := workload.DataOf[workload.Network](o.Document)
	if err != nil {
		return "" // no node takes it
	}
	return data.Name
}

// mine are the user's reservations that the explorer shows, the one that was signed
// first in front. What the user's key hasn't signed isn't among them.
func (d *Deployer) mine(ctx context.Context) ([]Observation, error) {
	var shown []explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = d.Explorer.ListAll(ctx, d.Key.ID())
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Observation
	for _, one := range shown {
		if one.User == d.Key.ID() && workload.Verify(&one.Reservation) == nil {
			out = append(out, Judged(nil, one, state.Seen{}))
		}
	}
	slices.SortStableFunc(out, func(a, b Observation) int { return a.Document.Created.Compare(b.Document.Created) })
	return out, nil
}

// stands reports whether an entry of the state stands for a reservation.
func (d *Deployer) stands(id string) bool {
	return slices.ContainsFunc(d.State.All(), func(e *state.Entry) bool { return e.ID == id })
}

// mayLive reports whether a reservation isn't known to be over.
func (d *Deployer) mayLive(o Observation) bool {
	p := phase(o.Verdict)
	return p != plan.Ended && p != plan.Failed && d.Now().Before(o.Expires)
}
