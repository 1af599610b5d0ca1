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

// Remove takes down what of a container has the label: each part has its name from
// the ID, so that there is one of each, but they may be of several reservations.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	claim := orphan.Claim()
	leave := func() error { return p.leaveAll(ctx, orphan.ID, claim) }
	return errors.Wrapf(p.endParts(ctx, orphan.ID, claim, leave, true), "cannot remove container %s", orphan.ID)
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
	leave := func() error {
		if want, err := planOf(r); err == nil {
			return p.Networks.Leave(ctx, want.network, r.ID)
		}
		return p.leaveAll(ctx, r.ID, claim)
	}
	return p.endParts(ctx, r.ID, claim, leave, all)
}

// endParts takes down what of that ID is the claim's. leave gives back the
// container's place in its network.
func (p *Provisioner) endParts(ctx context.Context, id string, claim provisioner.Claim, leave func() error, all bool) error {
	steps := []func() error{func() error { return p.endContainer(ctx, id, claim, leave) }}
	if all {
		steps = append(steps,
			func() error { return p.endLayer(ctx, id+layerSuffix, claim) },
			func() error { return p.endImage(ctx, id, claim) })
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
func (p *Provisioner) endContainer(ctx context.Context, id string, claim provisioner.Claim, leave func() error) error {
	box, err := p.Containers.Inspect(ctx, id)
	switch {
	case err == nil && !claim.Takes(box.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	// Of one that isn't there something may be left.
	if err := p.Containers.Delete(ctx, id); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	return leave()
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

// leaveAll gives back the claim's places under an ID. Which networks they are in isn't
// known: they are found by the members' labels.
func (p *Provisioner) leaveAll(ctx context.Context, id string, claim provisioner.Claim) error {
	all, err := p.Networks.List(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		for _, m := range n.Members {
			if m.Member != id || !claim.Takes(m.Hash) {
				continue
			}
			if err := p.Networks.Leave(ctx, n.ID, m.Member); err != nil && node.KindOf(err) != node.NotExist {
				return err
			}
		}
	}
	return nil
}
