package deploy

import (
	"context"
	"slices"

	"github.com/croft-edge/croft/pkg/workload"
)

// MountedBy names the containers of the user that mount a volume and haven't ended,
// as the explorer shows them: those of the project by their names, others by IDs.
func (d *Deployer) MountedBy(ctx context.Context, volume *workload.Reservation) ([]string, error) {
	if volume.Type != workload.TypeVolume || volume.User != d.Key.ID() {
		return nil, nil
	}
	all, err := d.mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range all {
		if o.Document.Type == workload.TypeContainer && o.Document.NodeID == volume.NodeID && d.mayLive(o) && mounts(o.Document, volume.ID) {
			out = append(out, d.label(o.Document.ID))
		}
	}
	return out, nil
}

func mounts(container *workload.Reservation, volume string) bool {
	data, err := workload.DataOf[workload.Container](container)
	return err == nil && slices.ContainsFunc(data.Mounts, func(m workload.Mount) bool { return m.VolumeID == volume })
}

// label is the project's name for a reservation, or its ID.
func (d *Deployer) label(id string) string {
	if d.State != nil {
		for name, e := range d.State.Current {
			if e.ID == id {
				return name
			}
		}
	}
	return id
}
