package deploy

import (
	"context"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// Applied are the entries that an apply or a delete has changed.
type Applied struct {
	// Made are the current entries of the project file.
	Made []*state.Entry
	// Left are those whose deletion was signed.
	Left []*state.Entry
}

// Applier carries plans out.
type Applier struct {
	composer *composer
	pusher   *pusher
	remover  *Remover
	renewer  *Renewer
	ledger   *ledger
}

// Recover pushes signed documents that have no ID yet, so that every entry is
// known to the explorer or gone from the state.
func (a *Applier) Recover(ctx context.Context) error { return a.pusher.recover(ctx) }

// Apply carries p out; prune is whether reservations that aren't in the file are deleted.
// Deletions go first, so that replacements find the place free.
func (a *Applier) Apply(ctx context.Context, f *project.File, p plan.Plan, prune bool) (Applied, error) {
	out, err := a.remover.Leave(ctx, a.leaving(p, prune))
	if err != nil {
		return out, err
	}
	for _, c := range p.Changes {
		if c.Action == plan.Delete || c.Action == plan.Blocked {
			continue
		}
		if err := a.carryOut(ctx, f.Find(c.Name), c); err != nil {
			return out, err
		}
		out.Made = append(out.Made, a.ledger.Current[c.Name])
	}
	return out, nil
}

func (a *Applier) carryOut(ctx context.Context, w *project.Workload, c plan.Change) error {
	switch c.Action {
	case plan.Create, plan.Replace:
		_, err := a.create(ctx, w)
		return err
	case plan.Update:
		if w.Type == workload.TypeContainer {
			return a.replace(ctx, w)
		}
		e, err := a.create(ctx, w)
		if err != nil {
			return err
		}
		return a.ledger.relink(e)
	case plan.Renew:
		return a.renewer.Entry(ctx, a.ledger.Current[c.Name], workload.Renewal{Expires: c.Expires}, w.Duration)
	case plan.Resume:
		return a.pusher.push(ctx, a.ledger.Current[c.Name])
	}
	return nil
}

// leaving are the names whose reservations are deleted, the last of the file first.
func (a *Applier) leaving(p plan.Plan, prune bool) []string {
	var out []string
	for i := len(p.Changes) - 1; i >= 0; i-- {
		c := p.Changes[i]
		switch {
		case c.Action == plan.Delete && prune && c.Gone:
			delete(a.ledger.Current, c.Name)
		case c.Action == plan.Replace, c.Action == plan.Delete && prune:
			out = append(out, c.Name)
		}
	}
	return out
}

// create signs a reservation for w, writes it into the state, then pushes it.
func (a *Applier) create(ctx context.Context, w *project.Workload) (*state.Entry, error) {
	e, err := a.composer.sign(ctx, w)
	if err != nil {
		return nil, err
	}
	a.ledger.Current[w.Name] = e
	if err := a.ledger.save(); err != nil {
		return nil, err
	}
	return e, a.pusher.push(ctx, e)
}

// replace is create for a container that takes the place of the current one. The old one
// stays in the state until its end was seen.
func (a *Applier) replace(ctx context.Context, w *project.Workload) error {
	e, err := a.composer.sign(ctx, w)
	if err != nil {
		return err
	}
	a.ledger.Takes(e)
	if err := a.ledger.save(); err != nil {
		return err
	}
	return a.pusher.push(ctx, e)
}
