package parts

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Container is a container. The ID is its reservation's, or a name of the node's own.
type Container = typed.Resource[ContainerSpec, containers]

// ContainersType is its type.
const ContainersType = "Containers.croft"

// ContainerSpec describes it.
type ContainerSpec struct {
	node.ContainerInfo `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ContainerSpec) DeepCopy() ContainerSpec {
	s.Volumes, s.LastLog = slices.Clone(s.Volumes), slices.Clone(s.LastLog)
	return s
}

// NewContainer makes its resource.
func NewContainer(c node.ContainerInfo) *Container {
	r := typed.NewResource[ContainerSpec, containers](resources.Metadata(resources.Node, "Containers", c.ID), ContainerSpec{c})
	r.Metadata().Labels().Set(resources.LabelUser, c.User)
	r.Metadata().Labels().Set(resources.LabelWorkload, c.ID)
	return r
}

// containers is the type's definition.
type containers struct{}

// ResourceDefinition implements typed.Extension.
func (containers) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Containers", resources.Node, nil,
		resources.Column{Heading: "STATE", Path: "state"}, resources.Column{Heading: "PID", Path: "pid"}, resources.Column{Heading: "RESTARTS", Path: "restarts"}, resources.Column{Heading: "USER", Path: "user"}, resources.Column{Heading: "CAUSE", Path: "cause"}, resources.Column{Heading: "DRIFT", Path: "drift"})
}
