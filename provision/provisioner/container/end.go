package container

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Decommission takes the container down and deletes all that it wrote outside its volumes.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, true), "cannot decommission container %s", r.ID)
}

// Remove takes down a container's parts that have the label: each part is named
// after the ID, so there is one of each, but of possibly different reservations.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	claim := orphan.Claim()
	leave := func() error { return p.leaveAll(ctx, orphan.ID, claim) }
	return errors.Wrapf(p.endParts(ctx, orphan.ID, claim, leave, true), "cannot remove container %s", orphan.ID)
}

// Stop takes the container down and keeps its layer and its image: Provision
// makes it again from these.
func (p *Provisioner) Stop(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, false), "cannot stop container %s", r.ID)
}

// end takes down r's parts: all, or only the container and its place in the network.
func (p *Provisioner) end(ctx context.Context, r *workload.Reservation, all bool) error {
	claim, err := provisioner.ClaimOf(r, p.Past)
	if err != nil {
		return err
	}
	leave := func() error {
		if want, err := planOf(r); err == nil {
			return p.Networks.Leave(ctx, want.network.Key(), r.ID)
		}
		return p.leaveAll(ctx, r.ID, claim)
	}
	return p.endParts(ctx, r.ID, claim, leave, all)
}

// endParts takes down the parts of that ID that the claim covers. leave gives back
// the container's place in its network.
func (p *Provisioner) endParts(ctx context.Context, id string, claim provisioner.Claim, leave func() error, all bool) error {
	steps := []func() error{func() error { return p.endContainer(ctx, id, claim, leave) }}
	if all {
		steps = append(steps,
			func() error { return p.endLayer(ctx, id+layerSuffix, claim) },
			func() error { return p.endImage(ctx, id, claim) })
	}
	return provisioner.EndParts(steps...)
}

// endContainer removes the container and its place in the network. If another
// reservation owns the container of that ID, it owns the place too.
func (p *Provisioner) endContainer(ctx context.Context, id string, claim provisioner.Claim, leave func() error) error {
	box, err := p.Containers.Inspect(ctx, id)
	switch {
	case err == nil && !claim.Takes(box.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	// Remains of a missing container may exist: delete it all the same.
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
	// A failed pull leaves no image, but perhaps parts of one.
	return p.Images.Release(ctx, label)
}

// leaveAll gives back the claim's places of an ID in all networks. It finds them by
// the members' labels, as their networks are unknown.
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
