package rootfs

import (
	"regexp"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// ownForm is that of the IDs of the node's own containers, such as
// "zdb-ssd0-user": no reservation's is so.
var ownForm = regexp.MustCompile(`^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$`)

// longestOwn bounds them.
const longestOwn = 64

// validID refuses what is neither a reservation's ID as it is written nor one of
// the node's own: it becomes a folder's name beside those of others.
func validID(id string) error {
	parsed, err := workload.ParseID(id)
	if err == nil && parsed.String() == id || len(id) <= longestOwn && ownForm.MatchString(id) {
		return nil
	}
	return node.Errorf(node.Invalid, "cannot use ID %.64q for a container: it must be N-M, two decimal numbers, or small letters and digits with single - between them", id)
}
