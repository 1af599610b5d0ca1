package container

import (
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// openPictures opens the images.
func openPictures(Config, *containerd.Daemon, *Module) (pictures, error) {
	return nil, node.Errorf(node.Refused, "cannot open images: there are none yet")
}
