package carrier

import (
	"context"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// End ends the carrier of a run folder, if there is one. Its links stay.
func End(ctx context.Context, runDir string) error {
	dir := folderOf(runDir)
	client, err := find(ctx, dir)
	if err != nil {
		return err
	}
	if client == nil {
		// One that was killed leaves its control groups.
		if group, err := cgroup.Beside(dir.Group()); err == nil {
			group.Remove()
		}
		return nil
	}
	defer client.Close()
	return client.Stop(ctx)
}
