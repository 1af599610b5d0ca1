package kubernetes

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Decommission powers the VM off and removes it with its disk.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, true), "cannot decommission Kubernetes VM %s", r.ID)
}

// Stop powers the VM off, and keeps its disk: Provision starts it again with that.
func (p *Provisioner) Stop(ctx context.Context, r *workload.Reservation) error {
	return errors.Wrapf(p.end(ctx, r, false), "cannot stop Kubernetes VM %s", r.ID)
}

// Remove takes down the parts that have the label: each is named after the ID, so there is one of each, but
// of possibly different reservations.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	return errors.Wrapf(p.endParts(ctx, orphan.ID, orphan.Claim(), true), "cannot remove Kubernetes VM %s", orphan.ID)
}

func (p *Provisioner) end(ctx context.Context, r *workload.Reservation, all bool) error {
	claim, err := provisioner.ClaimOf(r, nil)
	if err != nil {
		return err
	}
	return p.endParts(ctx, r.ID, claim, all)
}

// endParts takes down the parts of that ID that the claim covers; the disk, which the VM has open, comes last.
func (p *Provisioner) endParts(ctx context.Context, id string, claim provisioner.Claim, all bool) error {
	steps := []func() error{
		func() error { return p.endVM(ctx, id, claim) },
		func() error { return p.endTap(ctx, id, claim) },
	}
	if all {
		steps = append(steps, func() error { return p.endDisk(ctx, id, claim) })
	}
	return provisioner.EndParts(steps...)
}

func (p *Provisioner) endVM(ctx context.Context, id string, claim provisioner.Claim) error {
	vm, err := p.VMs.Inspect(ctx, id)
	if err == nil {
		err = broken(vm)
	}
	if err != nil || !claim.Takes(vm.Hash) {
		return err
	}
	return p.VMs.Delete(ctx, id)
}

func (p *Provisioner) endTap(ctx context.Context, id string, claim provisioner.Claim) error {
	all, err := p.Taps.List(ctx)
	if err != nil {
		return err
	}
	for _, tap := range all {
		if tap.VM == id && claim.Takes(tap.Hash) {
			return p.Taps.Remove(ctx, id)
		}
	}
	return nil
}

// endDisk removes the disk, unless a VM of that ID is there: it is another reservation's, or came back.
func (p *Provisioner) endDisk(ctx context.Context, id string, claim provisioner.Claim) error {
	disk, err := p.Disks.Inspect(ctx, id)
	switch {
	case err == nil && !claim.Takes(disk.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	vm, err := p.VMs.Inspect(ctx, id)
	if err == nil {
		err = broken(vm)
	}
	if err == nil && claim.Takes(vm.Hash) {
		return node.Errorf(node.Busy, "its VM has its disk open")
	}
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	// Remains of a missing disk may exist: remove it all the same.
	return p.Disks.Deallocate(ctx, id)
}
