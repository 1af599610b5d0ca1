package deploy

import (
	"context"
	"sort"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// Wanted makes the planner's input of the project file. Each workload is
// checked as it would be pushed, so that nothing is pushed of a file that
// holds a mistake.
func (d *Deployer) Wanted(f *project.File) ([]plan.Wanted, error) {
	if err := f.CheckKeys(d.open); err != nil {
		return nil, err
	}
	var out []plan.Wanted
	for _, w := range f.Workloads {
		if err := w.Check(d.Key.ID()); err != nil {
			return nil, err
		}
		digest, err := d.digest(w)
		if err != nil {
			return nil, err
		}
		out = append(out, plan.Wanted{
			Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network, Digest: digest, Duration: w.Duration, Uses: w.Uses(),
		})
	}
	return out, nil
}

// Applied is what an apply or a delete has set in motion.
type Applied struct {
	// Made are the current entries of the project file.
	Made []*state.Entry
	// Left are those whose deletion was signed.
	Left []*state.Entry
}

// Apply carries p out; prune is whether what isn't in the file is deleted.
// Deletions go first, so that what takes a place finds it free.
func (d *Deployer) Apply(ctx context.Context, f *project.File, p plan.Plan, prune bool) (Applied, error) {
	out, err := d.Leave(ctx, d.leaving(p, prune))
	if err != nil {
		return out, err
	}
	for _, c := range p.Changes {
		if c.Action == plan.Delete || c.Action == plan.Blocked {
			continue
		}
		if err := d.carryOut(ctx, f.Find(c.Name), c); err != nil {
			return out, err
		}
		out.Made = append(out.Made, d.State.Current[c.Name])
	}
	return out, nil
}

func (d *Deployer) carryOut(ctx context.Context, w *project.Workload, c plan.Change) error {
	switch c.Action {
	case plan.Create, plan.Replace:
		_, err := d.create(ctx, w)
		return err
	case plan.Update:
		if w.Type == workload.TypeContainer {
			return d.succeed(ctx, w)
		}
		e, err := d.create(ctx, w)
		if err != nil {
			return err
		}
		return d.follow(e)
	case plan.Renew:
		return d.RenewEntry(ctx, d.State.Current[c.Name], workload.Renewal{Expires: c.Expires}, w.Duration)
	case plan.Resume:
		return d.push(ctx, d.State.Current[c.Name])
	}
	return nil
}

// follow makes the members of an updated network members of its new reservation.
func (d *Deployer) follow(network *state.Entry) error {
	for _, e := range d.State.Current {
		if _, ok := e.Uses[network.Name]; ok {
			e.Uses[network.Name] = network.ID
		}
	}
	return d.save()
}

// leaving are the names whose reservations are deleted, the last of the file first.
func (d *Deployer) leaving(p plan.Plan, prune bool) []string {
	var out []string
	for i := len(p.Changes) - 1; i >= 0; i-- {
		c := p.Changes[i]
		switch {
		case c.Action == plan.Delete && prune && c.Gone:
			delete(d.State.Current, c.Name)
		case c.Action == plan.Replace, c.Action == plan.Delete && prune:
			out = append(out, c.Name)
		}
	}
	return out
}

// usersFirst sorts names so that containers and VMs go before volumes and networks.
func (d *Deployer) usersFirst(names []string) {
	rank := map[workload.Type]int{}
	for i, t := range workload.Types() {
		rank[t] = -i
	}
	sort.SliceStable(names, func(i, j int) bool {
		return rank[d.State.Current[names[i]].Type] < rank[d.State.Current[names[j]].Type]
	})
}

// Leave deletes the reservations of those names, users before what they use.
func (d *Deployer) Leave(ctx context.Context, names []string) (Applied, error) {
	var out Applied
	names = append([]string(nil), names...)
	d.usersFirst(names)
	for _, name := range names {
		e, err := d.leave(ctx, name)
		if err != nil {
			return out, err
		}
		out.Left = append(out.Left, e...)
	}
	return out, nil
}
