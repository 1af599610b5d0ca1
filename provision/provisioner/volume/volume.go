// Package volume provisions volumes: file systems of their own, with an
// enforced size, named after their reservation and labelled with its hash. Each
// of its methods makes one
// change at most, so there is nothing to undo.
package volume

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

const gib = 1 << 30

// Config is what the provisioner uses.
type Config struct {
	Storage    Storage
	Containers Containers
	// Past knows what an older croft has made; nil means nothing.
	Past provisioner.Past
}

// Provisioner is the volume type's.
type Provisioner struct {
	Config
}

// New makes the provisioner of volumes.
func New(c Config) *Provisioner { return &Provisioner{c} }

// HoldsData says that taking a volume down loses what its user wrote.
func (p *Provisioner) HoldsData() bool { return true }

// Provision makes the volume, or adopts the one that is there.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	spec, err := plan(r)
	if err != nil {
		return nil, err
	}
	claim, err := provisioner.ClaimOf(r, p.Past)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision volume %s", r.ID)
	}
	spec.Hash, spec.AdoptUnlabelled = claim.Hash, claim.AdoptUnlabelled
	made, err := p.Storage.CreateFilesystem(ctx, spec)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision volume %s", r.ID)
	}
	return json.Marshal(workload.VolumeResult{ID: made.Name})
}

// Decommission removes the volume with its data. Busy while a container mounts it.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	ours, err := p.ours(ctx, r)
	if err != nil || !ours {
		return errors.Wrapf(err, "cannot decommission volume %s", r.ID)
	}
	all, err := p.Containers.List(ctx)
	if err != nil {
		return errors.Wrapf(err, "cannot decommission volume %s: it isn't known whether a container mounts it", r.ID)
	}
	for _, c := range all {
		if slices.Contains(c.Volumes, r.ID) {
			return node.Errorf(node.Busy, "cannot decommission volume %s: container %s mounts it", r.ID, c.ID)
		}
	}
	err = p.Storage.ReleaseFilesystem(ctx, r.ID)
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return errors.Wrapf(err, "cannot decommission volume %s", r.ID)
}

// ours reports whether the volume of r's ID is r's, or there is none.
func (p *Provisioner) ours(ctx context.Context, r *workload.Reservation) (bool, error) {
	claim, err := provisioner.ClaimOf(r, p.Past)
	if err != nil {
		return false, err
	}
	fs, err := p.Storage.InspectFilesystem(ctx, r.ID)
	if node.KindOf(err) == node.NotExist {
		return true, nil
	}
	return err == nil && claim.Takes(fs.Hash), err
}

// List returns the IDs of the file systems that are named after a reservation.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return slices.Sorted(maps.Keys(seen)), err
}

// Look returns the same, and whose they are.
func (p *Provisioner) Look(ctx context.Context) (map[string]provisioner.Seen, error) {
	all, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list volumes")
	}
	seen := map[string]provisioner.Seen{}
	for _, fs := range all {
		if id, err := workload.ParseID(fs.Name); err == nil && id.String() == fs.Name {
			seen[fs.Name] = provisioner.Seen{Hash: provisioner.HashOf(fs.Hash)}
		}
	}
	return seen, nil
}

// plan reads the reservation's data into what to ask of storage, in bytes.
func plan(r *workload.Reservation) (node.FilesystemSpec, error) {
	v, err := workload.DataOf[workload.Volume](r)
	if err != nil {
		return node.FilesystemSpec{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot provision volume %s", r.ID))
	}
	if v.Size < 1 || v.Size > math.MaxInt64/gib {
		return node.FilesystemSpec{}, node.Errorf(node.Invalid,
			"cannot provision volume %s: size is %d GiB, must be from 1 to %d", r.ID, v.Size, uint64(math.MaxInt64/gib))
	}
	if v.Type != workload.SSD && v.Type != workload.HDD {
		return node.FilesystemSpec{}, node.Errorf(node.Invalid,
			"cannot provision volume %s: type is %q, must be %s or %s", r.ID, v.Type, workload.SSD, workload.HDD)
	}
	return node.FilesystemSpec{Name: r.ID, Size: v.Size * gib, DiskType: v.Type}, nil
}
