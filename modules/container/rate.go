package container

import (
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// throttle holds a container, whose group has just been made and in which nothing of
// its image runs yet, to the operator's rates on the disks of its layer and volumes.
// The disks are looked up at each start: after a reboot they have other numbers. The
// node's own containers, zdb's, serve many users and have none.
func (m *Module) throttle(r record) {
	if m.cfg.Rate == (cgroup.Rate{}) || r.User == node.OwnUser {
		return
	}
	paths := []string{r.Root.Layer}
	for _, b := range r.Root.Binds {
		paths = append(paths, b.Source)
	}
	disks, err := cgroup.Disks(paths...)
	if err != nil {
		m.cfg.Log.Warn().Err(err).Str("id", r.ID).Str("type", "container").Msg("a container isn't held to its rates on disks")
		return
	}
	g, err := cgroup.At(m.cfg.group(r.ID))
	if err != nil || !g.Throttle(m.cfg.Rate, disks) {
		m.cfg.Log.Warn().Err(err).Str("id", r.ID).Strs("disks", disks).Str("type", "container").Msg("a container isn't held to its rates on disks")
	}
}
