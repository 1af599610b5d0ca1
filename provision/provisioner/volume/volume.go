// Package volume provisions volumes: file systems of their own, with an
// enforced size, named after their reservation. Each of its methods makes one
// change at most, so there is nothing to undo.
package volume

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const gib = 1 << 30

// Provisioner is the volume type's.
type Provisioner struct {
	storage    Storage
	containers Containers
}

// New makes the provisioner of volumes on that storage, for those containers.
func New(storage Storage, containers Containers) *Provisioner {
	return &Provisioner{storage: storage, containers: containers}
}

// HoldsData says that taking a volume down loses what its user wrote.
func (p *Provisioner) HoldsData() bool { return true }

// Provision makes the volume, or adopts the one that is there.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	spec, err := plan(r)
	if err != nil {
		return nil, err
	}
	made, err := p.storage.CreateFilesystem(ctx, spec)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision volume %s", r.ID)
	}
	return json.Marshal(workload.VolumeResult{ID: made.Name})
}

// Decommission removes the volume with its data. Busy while a container mounts it.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	all, err := p.containers.List(ctx)
	if err != nil {
		return errors.Wrapf(err, "cannot decommission volume %s: it isn't known whether a container mounts it", r.ID)
	}
	for _, c := range all {
		if slices.Contains(c.Volumes, r.ID) {
			return node.Errorf(node.Busy, "cannot decommission volume %s: container %s mounts it", r.ID, c.ID)
		}
	}
	err = p.storage.ReleaseFilesystem(ctx, r.ID)
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return errors.Wrapf(err, "cannot decommission volume %s", r.ID)
}

// List returns the IDs of the file systems that are named after a reservation.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	all, err := p.storage.ListFilesystems(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list volumes")
	}
	var ids []string
	for _, fs := range all {
		if id, err := workload.ParseID(fs.Name); err == nil && id.String() == fs.Name {
			ids = append(ids, fs.Name)
		}
	}
	return ids, nil
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
