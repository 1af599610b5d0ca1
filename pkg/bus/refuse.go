package bus

import (
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// Refuse serves, in place of an object, a refusal: each call of any method fails with the error that reason returns then, and none
// is carried out. Its streams are silent. Refuse before Run.
func Refuse(s *Server, id zbus.ObjectID, reason func() error) error {
	if err := checkObject(id); err != nil {
		return err
	}
	if reason == nil {
		return node.Errorf(node.Invalid, "cannot register %s: its reason is nil", id)
	}
	return s.objects.register(id, &object{refusal: reason})
}
