package plan

import (
	"maps"

	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// Process is the container's first process, whose root is mounted at a path. Secret variables
// count towards its limits, but aren't in it: croft's init reads them from their file.
func (p Plan) Process(root string) (spec.Process, error) {
	args := command(p.Spec, p.Image.Config)
	if len(p.Spec.Secrets) > 0 {
		all := map[string]string{}
		maps.Copy(all, p.Spec.Env)
		maps.Copy(all, p.Spec.Secrets)
		if _, err := spec.NewProcess(p.Image.Config, args, all, root); err != nil {
			return spec.Process{}, err
		}
	}
	process, err := spec.NewProcess(p.Image.Config, args, p.Spec.Env, root)
	if err == nil && p.Spec.NonRoot && process.UID == 0 {
		err = node.Errorf(node.Invalid, "cannot start the image: its user is root, and data.non_root is true: another user must be named in the image")
	}
	return process, err
}
