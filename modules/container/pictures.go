package container

import (
	"context"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
)

// openPictures opens the images. Those of containers that stand are in use.
// Who has none left has no namespace either.
func openPictures(c Config, d *containerd.Daemon, m *Module) (pictures, error) {
	c.Image.Daemon = d
	c.Image.InUse = func(ctx context.Context) (map[string]bool, error) {
		seen, err := m.look(ctx)
		used := make(map[string]bool, len(seen))
		for id := range seen {
			used[id] = true
		}
		return used, err
	}
	c.Image.Emptied = m.sweepUser
	store, err := image.Open(c.Image)
	if err != nil {
		return nil, err
	}
	return store, nil
}
