package host

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Capacity is the room for workloads on the node. Its ID is Node.
type Capacity = typed.Resource[CapacitySpec, capacities]

// CapacitiesType is its type.
const CapacitiesType = "Capacities.croft"

// Amounts are amounts of the node's resources: cores, and bytes.
type Amounts struct {
	CPU    uint64 `json:"cpu" yaml:"cpu" protobuf:"1"`
	Memory uint64 `json:"memory" yaml:"memory" protobuf:"2"`
	SSD    uint64 `json:"ssd" yaml:"ssd" protobuf:"3"`
	HDD    uint64 `json:"hdd" yaml:"hdd" protobuf:"4"`
}

// CapacitySpec describes the room for workloads.
type CapacitySpec struct {
	// Total is what is offered, Used the part of it that is promised, Free the rest. Of the disks, Free is at most what
	// the pools have for volumes, each of which lies on one pool.
	Total Amounts `json:"total" yaml:"total" protobuf:"1"`
	Used  Amounts `json:"used" yaml:"used" protobuf:"2"`
	Free  Amounts `json:"free" yaml:"free" protobuf:"3"`
}

// DeepCopy implements typed.DeepCopyable.
func (s CapacitySpec) DeepCopy() CapacitySpec { return s }

// NewCapacity makes the resource.
func NewCapacity(s CapacitySpec) *Capacity {
	return typed.NewResource[CapacitySpec, capacities](resources.Metadata(resources.Node, "Capacities", Node), s)
}

// capacities is the type's definition.
type capacities struct{}

// ResourceDefinition implements typed.Extension.
func (capacities) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Capacities", resources.Node, nil,
		resources.Column{Heading: "CPU", Path: "total.cpu"},
		resources.Column{Heading: "MEMORY", Path: "total.memory"},
		resources.Column{Heading: "SSD", Path: "total.ssd"},
		resources.Column{Heading: "HDD", Path: "total.hdd"},
		resources.Column{Heading: "FREE CPU", Path: "free.cpu"},
		resources.Column{Heading: "FREE MEMORY", Path: "free.memory"},
		resources.Column{Heading: "FREE SSD", Path: "free.ssd"},
		resources.Column{Heading: "FREE HDD", Path: "free.hdd"})
}
