package container

import (
	"context"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/node"
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

// held are the images as they go on the bus. Whose image is held may come back, on
// the same layer: until then its log stays, too.
type held struct {
	node.Images
	m *Module
}

// Release implements node.Images.
func (h held) Release(label string) error {
	err := h.Images.Release(label)
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	ctx, cancel := service{h.m}.within(changeTime)
	defer cancel()
	if dropped := h.m.dropLeftLog(ctx, label); dropped != nil {
		return dropped
	}
	return err
}

// dropLog ends the log of a container that is removed.
func (m *Module) dropLog(ctx context.Context, id string) error {
	_, err := m.pictures.Images().Inspect(id)
	return m.outputs.Drop(ctx, id, err == nil)
}

// dropLeftLog removes the log of a container that isn't there any more.
func (m *Module) dropLeftLog(ctx context.Context, id string) error {
	if checkID(id) != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(m.cfg.Logs.Dir, id)); os.IsNotExist(err) {
		return nil
	}
	it, err := m.hold(ctx, id)
	if err != nil {
		return err
	}
	defer m.release(it)
	if _, known := m.recordOf(id); known {
		return nil
	}
	return m.outputs.Drop(ctx, id, false)
}
