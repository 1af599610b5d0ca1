package daemon

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/store"
)

// patient is an admission that doesn't take a broken pool for a full one: what
// has no room now may have it when the pool is whole again.
type patient struct {
	provision.Admission
	status func(ctx context.Context) (node.StorageStatus, error)
}

// Admit implements provision.Admission.
func (p patient) Admit(ctx context.Context, r *workload.Reservation, have []store.Record) error {
	err := p.Admission.Admit(ctx, r, have)
	if node.KindOf(err) != node.NoSpace {
		return err
	}
	asked, derr := demand(r)
	status, serr := p.status(ctx)
	if derr != nil || serr != nil {
		return err
	}
	for _, b := range status.BrokenPools {
		if asked.SSD > 0 && b.DiskType != workload.HDD || asked.HDD > 0 && b.DiskType != workload.SSD {
			return node.Errorf(node.Transient, "%v; pool %s is broken now: %s", err, b.Name, b.Cause)
		}
	}
	return err
}
