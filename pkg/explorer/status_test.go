package explorer

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// The explorer and nodes map each error kind to one status, and a client that knows only the
// status retries where the kind isn't final. A client also retries NoSpace: room may come.
func TestStatusOfKinds(t *testing.T) {
	for kind, want := range map[node.Kind]int{
		node.Invalid: 400, node.Refused: 403, node.NotExist: 404, node.Exist: 409, node.Busy: 429,
		node.NoSpace: 507, node.Transient: 503, node.Unknown: 503, node.Internal: 500,
	} {
		status := StatusOf(kind)
		if status != want {
			t.Errorf("%s is answered %d, want %d", kind, status, want)
		}
		if back := kindOfStatus(status); back.Final() != (kind.Final() && kind != node.NoSpace) {
			t.Errorf("%s is answered %d, of which a client makes %s", kind, status, back)
		}
	}
}
