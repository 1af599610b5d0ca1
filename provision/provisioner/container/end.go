package container

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Decommission takes the container down with all that it wrote beside its volumes.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, true), "cannot decommission container %s", r.ID)
}

// Stop takes the container down and keeps what it wrote, and its image: Provision
// makes it again on these.
func (p *Provisioner) Stop(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, false), "cannot stop container %s", r.ID)
}

// end takes down what is r's: all of it, or only what runs.
func (p *Provisioner) end(ctx context.Context, r *workload.Reservation, all bool) error {
	claim, err := provisioner.ClaimOf(r, p.Past)
	if err != nil {
		return err
	}
	steps := []func() error{func() error { return p.endContainer(ctx, r, claim) }}
	if all {
		steps = append(steps,
			func() error { return p.endLayer(ctx, r.ID+layerSuffix, claim) },
			func() error { return p.endImage(ctx, r.ID, claim) })
	}
	for _, step := range steps {
		if err := step(); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return nil
}

// endContainer removes the container and its place in the network. Where the
// container of that ID is another reservation's, the place is too.
func (p *Provisioner) endContainer(ctx context.Context, r *workload.Reservation, claim provisioner.Claim) error {
	box, err := p.Containers.Inspect(ctx, r.ID)
	switch {
	case err == nil && !claim.Takes(box.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	// Of one that isn't there something may be left.
	if err := p.Containers.Delete(ctx, r.ID); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	return p.leave(ctx, r)
}

func (p *Provisioner) endLayer(ctx context.Context, name string, claim provisioner.Claim) error {
	fs, err := p.Storage.InspectFilesystem(ctx, name)
	if err != nil || !claim.Takes(fs.Hash) {
		return err
	}
	return p.Storage.ReleaseFilesystem(ctx, name)
}

func (p *Provisioner) endImage(ctx context.Context, label string, claim provisioner.Claim) error {
	image, err := p.Images.Inspect(ctx, label)
	switch {
	case err == nil && !claim.Takes(image.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	// A pull that failed has no image, but may have fetched some of it.
	return p.Images.Release(ctx, label)
}

// leave gives back its place in a network. An orphan has no data: it is found by
// the networks' members.
func (p *Provisioner) leave(ctx context.Context, r *workload.Reservation) error {
	if want, err := planOf(r); err == nil {
		return p.Networks.Leave(ctx, want.network, r.ID)
	}
	all, err := p.Networks.List(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		for _, m := range n.Members {
			if m.Member == r.ID {
				return p.Networks.Leave(ctx, n.ID, r.ID)
			}
		}
	}
	return nil
}
