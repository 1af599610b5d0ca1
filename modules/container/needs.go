package container

import (
	"context"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/node"
)

// connection is the containerd in use.
type connection interface {
	Client(ctx context.Context) (*client.Client, error)
	Namespace(ctx context.Context, user string) context.Context
	NamespaceName(user string) string
	UserOf(namespace string) (string, bool)
	Bundle(user, id string) string
	Users(ctx context.Context) ([]string, error)
	Status() (address, version string, own bool, err error)
	Close() error
}

// rootfsStore keeps the root file systems, namespaces and mounts of containers.
type rootfsStore interface {
	Make(ctx context.Context, spec rootfs.Spec) (rootfs.Made, error)
	Within(id string, fn func(root string) error) error
	HandOver(ctx context.Context, id string) error
	LetGo(id string) error
	Check(id string) (drift string, err error)
	CheckAll() (map[string]string, error)
	Remove(ctx context.Context, id string) error
	List() ([]string, error)
	GiveBack(ctx context.Context) (int, error)
	Close()
}

// outputs are the logs of containers.
type outputs interface {
	Running() *logs.Carrier
	Open(ctx context.Context, id, user string) (logs.FIFOs, error)
	Drop(ctx context.Context, id string, keepFiles bool) error
	Run(ctx context.Context) error
	Close()
}

// imageStore keeps the images that containers are made of.
type imageStore interface {
	Images() node.Images
	Layers(ctx context.Context, label string) (image.Layers, error)
	Run(ctx context.Context) error
	Close() error
}

// imageUse tells an image store what it doesn't know of containers.
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
