package provisioner

import "github.com/croft-edge/croft/pkg/node"

// EndParts runs the steps that take a workload's parts down, in order, up to the first that fails. NotExist is no
// failure: that part is gone already.
func EndParts(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
	}
	return nil
}
