// Package volume provisions volumes: file systems of their own, with an
// enforced size, named after their reservation and labelled with its hash.
// Each method makes at most one change, so there is nothing to undo.
package volume

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

const gib = 1 << 30

// Config holds the modules and records that the provisioner uses.
type Config struct {
	Storage    Storage
	Containers Containers
	// Past knows the workloads of an older croft; nil means none.
	Past provisioner.Past
	provisioner.Hearing
}

// Provisioner provisions reservations of type volume.
type Provisioner struct {
	Config
}

// New makes the provisioner of volumes.
func New(c Config) *Provisioner { return &Provisioner{c} }

// HoldsData reports that taking a volume down loses its user's data.
func (p *Provisioner) HoldsData() bool { return true }

// Provision makes the volume, or adopts the existing one.
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
	claim, err := provisioner.ClaimOf(r, p.Past)
	if err == nil {
		err = p.end(ctx, r.ID, claim)
	}
	return errors.Wrapf(err, "cannot decommission volume %s", r.ID)
}

// Remove removes the volume of that ID if it has that hash. There is only one of
// an ID: a file system's name is its reservation's ID.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	return errors.Wrapf(p.end(ctx, orphan.ID, orphan.Claim()), "cannot remove volume %s", orphan.ID)
}

// end removes the volume of that ID if the claim covers it.
func (p *Provisioner) end(ctx context.Context, id string, claim provisioner.Claim) error {
	fs, err := p.Storage.InspectFilesystem(ctx, id)
	switch {
	case err == nil && !claim.Takes(fs.Hash):
		return nil
	case err != nil && node.KindOf(err) != node.NotExist:
		return err
	}
	all, err := p.Containers.List(ctx)
	if err != nil {
		return errors.Wrap(err, "it isn't known whether a container mounts it")
	}
	for _, c := range all {
		if slices.Contains(c.Volumes, id) {
			return node.Errorf(node.Busy, "container %s mounts it", c.ID)
		}
	}
	// Remains of a missing file system may exist: release it all the same.
	err = p.Storage.ReleaseFilesystem(ctx, id)
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return err
}

// List returns the IDs of the file systems named after a reservation.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns their labels; it reports no drift.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	all, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list volumes")
	}
	seen := map[provisioner.Label]provisioner.Seen{}
	for _, fs := range all {
		if workload.IsID(fs.Name) {
			seen[provisioner.LabelOf(fs.Name, fs.Hash)] = provisioner.Seen{}
		}
	}
	return seen, nil
}

// LookAt returns the labels of the volumes with these IDs.
func (p *Provisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	seen := map[provisioner.Label]provisioner.Seen{}
	for _, id := range ids {
		fs, err := p.Storage.InspectFilesystem(ctx, id)
		if node.KindOf(err) == node.NotExist {
			continue
		}
		if err != nil {
			return nil, errors.Wrapf(err, "cannot look at volume %s", id)
		}
		seen[provisioner.LabelOf(fs.Name, fs.Hash)] = provisioner.Seen{}
	}
	return seen, nil
}

// plan converts the reservation's data to a request to storage, in bytes.
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
