package rootfs

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// validID refuses what isn't a reservation's ID as it is written: it becomes a
// folder's name beside those of others.
func validID(id string) error {
	parsed, err := workload.ParseID(id)
	if err != nil || parsed.String() != id {
		return node.Errorf(node.Invalid, "cannot use ID %.64q for a container: it must be N-M, two decimal numbers", id)
	}
	return nil
}
