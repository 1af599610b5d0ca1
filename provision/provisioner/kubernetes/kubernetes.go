// Package kubernetes provisions Kubernetes VMs. It handles, in this order: the network and its gateway, the node's
// image, the cluster's secret, the disk, the tap device, and the VM with its config disk. The disk, the tap and the VM
// are named after their reservation, and labelled with its hash.
package kubernetes

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clusterboot"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Config holds the modules and records that the provisioner uses.
type Config struct {
	VMs      VMs
	Disks    Disks
	Taps     Taps
	Networks Networks
	Identity provisioner.Identity
	Owners   Records
	Images   Images
	provisioner.Hearing
}

// Provisioner provisions reservations of type kubernetes.
type Provisioner struct {
	Config
}

// New makes the provisioner of Kubernetes VMs.
func New(c Config) *Provisioner { return &Provisioner{c} }

// slots is how many VMs are made or taken down at a time: an end waits for its guest's power-off.
const slots = 4

// Slots implements provisioner.Parallel.
func (p *Provisioner) Slots() int { return slots }

// HoldsData reports that taking a VM down loses the data on its disk.
func (p *Provisioner) HoldsData() bool { return true }

// Provision makes the VM and starts it, or adopts the existing one. A disk that exists is attached as it is.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	result, err := p.provision(ctx, r)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision Kubernetes VM %s", r.ID)
	}
	return json.Marshal(result)
}

func (p *Provisioner) provision(ctx context.Context, r *workload.Reservation) (*workload.KubernetesResult, error) {
	want, err := planOf(r)
	if err != nil {
		return nil, err
	}
	ready, err := p.ready(ctx, r, want)
	if err != nil {
		return nil, err
	}
	var undo provisioner.Undo
	tap, err := p.make(ctx, ready, &undo)
	if err != nil {
		return nil, undo.Rollback(ctx, err)
	}
	return &workload.KubernetesResult{ID: want.id, IP: tap.IPv4}, nil
}

// readied is a plan with all that it needs of others.
type readied struct {
	plan
	// gateway is an address, subnet the network that it is in, on this node.
	gateway string
	subnet  string
	image   node.VMImage
	secret  []byte
	found   found
}

// found is which parts of the VM exist before an attempt.
type found struct{ vm, tap, disk bool }

func (f found) any() bool { return f.vm || f.tap || f.disk }

// ready waits for nothing: what is missing is an error.
func (p *Provisioner) ready(ctx context.Context, r *workload.Reservation, want plan) (out readied, err error) {
	out.plan = want
	if out.found, err = p.find(ctx, want); err != nil {
		return out, err
	}
	if !out.found.disk {
		if err := p.withoutDisk(ctx, &out); err != nil {
			return out, err
		}
	}
	out.gateway, err = want.network.Gateway(ctx, p.Networks, p.Owners, func(context.Context) (bool, error) { return out.found.any(), nil })
	if err != nil {
		return out, err
	}
	if out.subnet, err = p.Networks.Subnet(ctx, want.network.Key()); err != nil {
		return out, err
	}
	if out.image, err = p.Images.Current(ctx); err != nil {
		return out, imageError(err, out.found)
	}
	if out.secret, err = provisioner.OpenSecret(ctx, p.Identity, r, "cluster_secret", want.sealed); err != nil {
		return out, err
	}
	if !goodSecret(out.secret) {
		return out, node.Errorf(node.Invalid, "data.cluster_secret holds %d bytes, must hold from %d to %d of printed ASCII", len(out.secret), clusterboot.LeastSecret, clusterboot.MostSecret)
	}
	return out, nil
}

// withoutDisk decides about a VM without a disk. One that was deployed had data on it: an empty one in its place would be a new
// cluster with the old one's name. One that never was has been left by a lost answer, and is made anew.
func (p *Provisioner) withoutDisk(ctx context.Context, r *readied) error {
	was, err := p.Owners.WasDeployed(r.id)
	if err != nil {
		return err
	}
	if was {
		return node.Errorf(node.Transient, "its disk is gone, and none is made in its place: delete the reservation, or put the disk back")
	}
	if !r.found.vm {
		return nil
	}
	r.found.vm = false
	if err := p.VMs.Delete(ctx, r.id); node.KindOf(err) != node.NotExist {
		return err
	}
	return nil
}

// imageError makes a node without an image refuse a new VM. One that is being fetched is waited for. A broken image is the
// operator's matter, and is tried again.
func imageError(err error, have found) error {
	switch kind := node.KindOf(err); {
	case kind == node.NotExist && !have.any():
		return node.Errorf(node.Refused, "this node runs no Kubernetes VMs: %w", err)
	case kind == node.Transient:
		return err
	}
	return node.Errorf(node.Transient, "the node's image for Kubernetes VMs can't be used now: %w", err)
}

func goodSecret(secret []byte) bool {
	for _, b := range secret {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return len(secret) >= clusterboot.LeastSecret && len(secret) <= clusterboot.MostSecret
}

// make makes the disk, the tap and the VM. What it makes is taken back by undo, newest first: the disk only
// after its VM.
func (p *Provisioner) make(ctx context.Context, r readied, undo *provisioner.Undo) (node.Tap, error) {
	// Without a type the disk lies on an SSD, if there is one with room.
	disk, err := p.Disks.Allocate(ctx, node.VDiskSpec{Name: r.id, Size: r.size.Disk, Hash: r.claim.Hash, AdoptUnlabelled: r.claim.AdoptUnlabelled})
	if !r.found.disk && node.KindOf(err) != node.Exist {
		undo.Push("its disk", func(ctx context.Context) error { return p.Disks.Deallocate(ctx, r.id) })
	}
	if err != nil {
		return node.Tap{}, err
	}
	tap, err := p.Taps.Setup(ctx, node.TapSpec{
		Network: r.network.Key(), VM: r.id, Name: r.id, IP: r.ip, Hash: r.claim.Hash, AdoptUnlabelled: r.claim.AdoptUnlabelled,
	})
	if !r.found.tap && node.KindOf(err) != node.Exist {
		undo.Push("its tap device", func(ctx context.Context) error { return p.Taps.Remove(ctx, r.id) })
	}
	if err != nil {
		return node.Tap{}, err
	}
	spec, err := r.spec(disk, tap)
	if err != nil {
		return node.Tap{}, err
	}
	_, err = p.VMs.Run(ctx, spec)
	if !r.found.vm && node.KindOf(err) != node.Exist {
		undo.PushGuard("the VM", func(ctx context.Context) error { return p.VMs.Delete(ctx, r.id) })
	}
	if node.KindOf(err) == node.NotExist { // what it was to be made of has gone in between
		err = node.WithKind(node.Transient, err)
	}
	return tap, err
}

// The serial numbers of a VM's disks, by which its init finds them.
const (
	dataSerial = "data"
	rootSerial = "root"
)

// spec is the request to the vm module.
func (r readied) spec(disk node.VDisk, tap node.Tap) (node.VMSpec, error) {
	config, err := r.configDisk(tap)
	if err != nil {
		return node.VMSpec{}, err
	}
	out := node.VMSpec{
		ID: r.id, User: r.user, CPU: r.size.CPU, Memory: r.size.Memory, Kernel: r.image.Kernel, Initrd: r.image.Initrd, Arguments: r.image.Arguments,
		Disks:  []node.VMDisk{{Path: disk.Path, Serial: dataSerial}},
		Tap:    node.VMTap{Namespace: tap.Namespace, Device: tap.Device, MAC: tap.MAC},
		Config: config, Hash: r.claim.Hash, AdoptUnlabelled: r.claim.AdoptUnlabelled,
	}
	if r.image.Root != "" {
		out.Disks = append(out.Disks, node.VMDisk{Path: r.image.Root, Serial: rootSerial, ReadOnly: true})
	}
	return out, nil
}

// find asks the modules which parts of a VM exist. Exist when the VM of its ID is another reservation's.
func (p *Provisioner) find(ctx context.Context, want plan) (out found, err error) {
	vm, err := p.VMs.Inspect(ctx, want.id)
	if err == nil {
		out.vm, err = true, broken(vm)
	}
	if out.vm && err == nil {
		err = want.claim.Check("run VM "+want.id, vm.Hash)
	}
	if err != nil && node.KindOf(err) != node.NotExist {
		return out, err
	}
	_, err = p.Disks.Inspect(ctx, want.id)
	out.disk = err == nil
	if err != nil && node.KindOf(err) != node.NotExist {
		return out, err
	}
	taps, err := p.Taps.List(ctx)
	out.tap = slices.ContainsFunc(taps, func(t node.Tap) bool { return t.VM == want.id })
	return out, err
}

// broken returns Busy for a VM of which nobody knows whose it is: its record can't be read.
func broken(vm node.VMInfo) error {
	if vm.State == node.VMBroken {
		return node.Errorf(node.Busy, "VM %s can't be told: %s", vm.ID, vm.Cause)
	}
	return nil
}
