package container

import (
	"context"

	"github.com/containerd/containerd/v2/client"

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

// stands is what containers stand on.
type stands interface {
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

// outputs is where what they say goes.
type outputs interface {
	Running() *logs.Carrier
	Open(ctx context.Context, id, user string) (logs.FIFOs, error)
	Drop(ctx context.Context, id string, keepFiles bool) error
	Run(ctx context.Context) error
	Close()
}

// pictures are the images that they are made of.
type pictures interface {
	Images() node.Images
	Layers(ctx context.Context, label string) (image.Layers, error)
	Run(ctx context.Context) error
	Close() error
}
