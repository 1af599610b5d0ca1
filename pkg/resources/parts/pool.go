package parts

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Pool is a storage pool. The ID is its name.
type Pool = typed.Resource[PoolSpec, pools]

// PoolsType is its type.
const PoolsType = "Pools.croft"

// PoolSpec describes a pool. One that doesn't work has a name, a disk type if that is known, and Broken.
type PoolSpec struct {
	node.Pool `yaml:",inline"`
	// Broken is why it doesn't work, empty when it does.
	Broken string `yaml:"broken,omitempty" protobuf:"20"`
}

// DeepCopy implements typed.DeepCopyable.
func (s PoolSpec) DeepCopy() PoolSpec {
	s.Devices = slices.Clone(s.Devices)
	return s
}

// NewPool makes the resource of a pool that works.
func NewPool(p node.Pool) *Pool { return newPool(PoolSpec{Pool: p}) }

// NewBrokenPool makes the resource of a pool that doesn't work.
func NewBrokenPool(b node.BrokenPool) *Pool {
	return newPool(PoolSpec{Pool: node.Pool{Name: b.Name, DiskType: b.DiskType}, Broken: b.Cause})
}

func newPool(s PoolSpec) *Pool {
	return typed.NewResource[PoolSpec, pools](resources.Metadata(resources.Node, "Pools", s.Name), s)
}

// pools is the type's definition.
type pools struct{}

// ResourceDefinition implements typed.Extension.
func (pools) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Pools", resources.Node, nil,
		resources.Column{Heading: "TYPE", Path: "disk_type"}, resources.Column{Heading: "TOTAL", Path: "total"}, resources.Column{Heading: "USED", Path: "used"}, resources.Column{Heading: "PROMISED", Path: "reserved"}, resources.Column{Heading: "PATH", Path: "path"}, resources.Column{Heading: "BROKEN", Path: "broken"})
}
