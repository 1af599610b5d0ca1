package container

import (
	"context"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/node"
)

// imageStore keeps the images that containers are made of.
type imageStore interface {
	Images() node.Images
	Layers(ctx context.Context, label string) (image.Layers, error)
	Run(ctx context.Context) error
	Close() error
}

// imageUse gives an image store the facts about containers that it needs.
type imageUse struct {
	// inUse are the labels of the images of which there are containers.
	inUse func(ctx context.Context) (map[string]bool, error)
	// emptied is called with a user who may have nothing left in containerd.
	emptied func(ctx context.Context, user string)
}

// openImages opens the image store.
type openImages func(c Config, d *containerd.Daemon, use imageUse) (imageStore, error)

func openImageStore(c Config, d *containerd.Daemon, use imageUse) (imageStore, error) {
	c.Image.Daemon, c.Image.InUse, c.Image.Emptied = d, use.inUse, use.emptied
	store, err := image.Open(c.Image)
	if err != nil {
		return nil, err
	}
	return store, nil
}

// images are the images as they go on the bus.
type images struct {
	node.Images
	background *background
	logs       logRemover
}

// Release implements node.Images. It removes the log of the image's container, if that is gone.
func (i images) Release(label string) error {
	err := i.Images.Release(label)
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	ctx, cancel := context.WithTimeout(i.background.ctx, changeTime)
	defer cancel()
	if removed := i.logs.removeOrphan(ctx, label); removed != nil {
		return removed
	}
	return err
}
