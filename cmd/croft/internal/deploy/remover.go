package deploy

import (
	"context"
	"errors"

	pkgerrors "github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// leave signs the deletion of the current entry of that name and of those before it,
// writes it into the state, then tells the explorer.
func (d *Deployer) leave(ctx context.Context, name string) ([]*state.Entry, error) {
	r, err := d.State.Current[name].Reservation()
	if err != nil {
		return nil, err
	}
	if err := r.SignDeletion(workload.Deletion{Created: d.Now()}, d.Key.Private()); err != nil {
		return nil, err
	}
	before, err := d.leaveBefore(ctx, d.State.Current[name])
	if err != nil {
		return nil, err
	}
	e := d.State.Leave(name, r.Deletion)
	if err := d.save(); err != nil {
		return nil, err
	}
	for _, b := range before {
		if err := d.tell(ctx, b); err != nil {
			return append(before, e), err
		}
	}
	return append(before, e), d.tell(ctx, e)
}

// tell brings the deletion of a leaving entry to the explorer. One that the
// explorer doesn't know stays, for its node may have it until its signed end:
// that the explorer says so proves nothing.
func (d *Deployer) tell(ctx context.Context, e *state.Entry) error {
	err := again(ctx, func() error { return d.Explorer.Delete(ctx, e.ID, *e.Deletion) })
	if errors.Is(err, node.NotExist) {
		d.say("%s: the explorer doesn't know %s, so its deletion can't reach the node", e.Name, e.ID)
		return nil
	}
	if err != nil {
		return pkgerrors.Wrapf(err, "cannot delete %q", e.Name)
	}
	e.Told = true
	if err := d.save(); err != nil {
		return err
	}
	d.say("%s: deletion of %s is signed and pushed", e.Name, e.ID)
	return nil
}

// Retell brings the deletions that the explorer hasn't acknowledged yet.
func (d *Deployer) Retell(ctx context.Context) error {
	for _, e := range append([]*state.Entry(nil), d.State.Leaving...) {
		if e.Told {
			continue
		}
		if err := d.tell(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Delete signs and brings the deletion of a reservation that wasn't signed here.
func (d *Deployer) Delete(ctx context.Context, r *workload.Reservation) error {
	if r.User != d.Key.ID() {
		return pkgerrors.Errorf("cannot delete %s: it is of user %s, and the key is of %s", r.ID, r.User, d.Key.ID())
	}
	signed := *r
	if err := signed.SignDeletion(workload.Deletion{Created: d.Now()}, d.Key.Private()); err != nil {
		return err
	}
	if err := again(ctx, func() error { return d.Explorer.Delete(ctx, r.ID, *signed.Deletion) }); err != nil {
		return pkgerrors.Wrapf(err, "cannot delete %s", r.ID)
	}
	d.say("%s: deletion is signed and pushed", r.ID)
	return nil
}

// Tidy forgets the leaving entries whose end was seen.
func (d *Deployer) Tidy(seen map[*state.Entry]Observation) error {
	for _, e := range append([]*state.Entry(nil), d.State.Leaving...) {
		o, ok := seen[e]
		gone := o.Verified && o.Problem == "" && workload.Ended(o.State)
		if ok && (gone || o.Document.Created.Add(o.Document.Duration).Before(d.Now()) && o.Expires.Before(d.Now())) {
			d.State.Gone(e)
		}
	}
	d.tidyBefore(seen)
	return d.save()
}
