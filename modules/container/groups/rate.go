package groups

import (
	"github.com/croft-edge/croft/pkg/cgroup"
)

// Throttle limits a container to rates on the disks that these paths are on. Its group has just been
// made, and nothing of its image runs yet. The disks are looked up at each start: after a
// reboot they have other numbers.
func (g Groups) Throttle(id string, rate cgroup.Rate, paths []string) {
	disks, err := cgroup.Disks(paths...)
	if err != nil {
		g.Log.Warn().Str("id", id).Str("type", "container").Str("step", "limit").Err(err).Msg("cannot limit a container to its disk rates")
		return
	}
	group, err := cgroup.At(g.Path(id))
	if err != nil || !group.Throttle(rate, disks) {
		g.Log.Warn().Str("id", id).Str("type", "container").Str("step", "limit").Err(err).Strs("disks", disks).Msg("cannot limit a container to its disk rates")
	}
}
