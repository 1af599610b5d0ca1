package kubernetes

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// The drift of a VM of which a part is missing.
const (
	onlyDisk = "the VM is gone, its disk is left"
	onlyTap  = "the VM is gone, its tap device is left"
	noDisk   = "its disk is gone"
	noTap    = "its tap device is gone"
)

// List returns the IDs of the reservations of which the modules have any part.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns their labels, and each one's drift. A VM that waits for its next start has none: the vm module
// starts it.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	vms, err := p.VMs.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list VMs")
	}
	disks, err := p.Disks.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list VMs' disks")
	}
	taps, err := p.Taps.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list VMs' tap devices")
	}
	return combine(vms, disks, taps), nil
}

// LookAt is Look of the VMs with these IDs.
func (p *Provisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	taps, err := p.Taps.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list VMs' tap devices")
	}
	taps = slices.DeleteFunc(taps, func(t node.Tap) bool { return !slices.Contains(ids, t.VM) })
	var vms []node.VMInfo
	var disks []node.VDisk
	for _, id := range ids {
		vm, err := p.VMs.Inspect(ctx, id)
		disk, diskErr := p.Disks.Inspect(ctx, id)
		for _, err := range []error{err, diskErr} {
			if err != nil && node.KindOf(err) != node.NotExist {
				return nil, errors.Wrapf(err, "cannot look at VM %s", id)
			}
		}
		if err == nil {
			vms = append(vms, vm)
		}
		if diskErr == nil {
			disks = append(disks, disk)
		}
	}
	return combine(vms, disks, taps), nil
}

// combine returns the labels and drifts of the VMs that these are the parts of.
func combine(vms []node.VMInfo, disks []node.VDisk, taps []node.Tap) map[provisioner.Label]provisioner.Seen {
	seen := map[provisioner.Label]provisioner.Seen{}
	for _, vm := range vms {
		vm.Hash = ownerOf(vm, disks, taps)
		if workload.IsID(vm.ID) {
			seen[provisioner.LabelOf(vm.ID, vm.Hash)] = provisioner.Seen{Drift: driftOf(vm, disks, taps)}
		}
	}
	add := func(id, hash, drift string) {
		l := provisioner.LabelOf(id, hash)
		if _, there := seen[l]; !there && workload.IsID(id) {
			seen[l] = provisioner.Seen{Drift: drift}
		}
	}
	for _, d := range disks {
		add(d.Name, d.Hash, onlyDisk)
	}
	for _, t := range taps {
		add(t.VM, t.Hash, onlyTap)
	}
	return seen
}

// ownerOf is the hash of a VM's reservation. That of a VM whose record can't be read is its disk's or its tap's: without one it
// would be taken for an orphan, and ended.
func ownerOf(vm node.VMInfo, disks []node.VDisk, taps []node.Tap) string {
	if vm.State != node.VMBroken || vm.Hash != "" {
		return vm.Hash
	}
	for _, d := range disks {
		if d.Name == vm.ID {
			return d.Hash
		}
	}
	for _, t := range taps {
		if t.VM == vm.ID {
			return t.Hash
		}
	}
	return ""
}

// driftOf compares a VM with what Provision makes.
func driftOf(vm node.VMInfo, disks []node.VDisk, taps []node.Tap) string {
	if vm.State == node.VMBroken {
		return vm.Cause
	}
	if vm.Drift != "" {
		return vm.Drift
	}
	if !slices.ContainsFunc(disks, func(d node.VDisk) bool { return d.Name == vm.ID && d.Hash == vm.Hash }) {
		return noDisk
	}
	i := slices.IndexFunc(taps, func(t node.Tap) bool { return t.VM == vm.ID && t.Hash == vm.Hash })
	if i < 0 {
		return noTap
	}
	return taps[i].Drift
}
