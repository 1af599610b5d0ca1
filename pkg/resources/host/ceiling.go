package host

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Ceiling is the limits of a part of the node. Its ID is the part's name.
type Ceiling = typed.Resource[CeilingSpec, ceilings]

// CeilingsType is its type.
const CeilingsType = "Ceilings.croft"

// CeilingSpec describes the control group's limits of a part of the node. Memory and Used,
// the part's memory that can't be reclaimed now, are in bytes; 0 is no limit.
type CeilingSpec struct {
	Part      string `json:"part" yaml:"part" protobuf:"1"`
	Memory    uint64 `json:"memory" yaml:"memory" protobuf:"2"`
	Used      uint64 `json:"used" yaml:"used" protobuf:"3"`
	PIDs      uint64 `json:"pids" yaml:"pids" protobuf:"4"`
	IOWeight  uint64 `json:"io_weight" yaml:"io_weight" protobuf:"5"`
	CPUWeight uint64 `json:"cpu_weight" yaml:"cpu_weight" protobuf:"6"`
	// OOMKills counts the part's processes that the kernel killed because memory
	// was short.
	OOMKills uint64 `json:"oom_kills" yaml:"oom_kills" protobuf:"7"`
	// Missing are limits that this machine can't enforce.
	Missing []string `json:"missing" yaml:"missing,omitempty" protobuf:"8"`
}

// DeepCopy implements typed.DeepCopyable.
func (s CeilingSpec) DeepCopy() CeilingSpec {
	s.Missing = slices.Clone(s.Missing)
	return s
}

// NewCeiling makes the resource.
func NewCeiling(s CeilingSpec) *Ceiling {
	return typed.NewResource[CeilingSpec, ceilings](resources.Metadata(resources.Node, "Ceilings", s.Part), s)
}

// ceilings is the type's definition.
type ceilings struct{}

// ResourceDefinition implements typed.Extension.
func (ceilings) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Ceilings", resources.Node, nil,
		resources.Column{Heading: "MEMORY", Path: "memory"},
		resources.Column{Heading: "USED", Path: "used"},
		resources.Column{Heading: "PIDS", Path: "pids"},
		resources.Column{Heading: "IO WEIGHT", Path: "io_weight"},
		resources.Column{Heading: "CPU WEIGHT", Path: "cpu_weight"},
		resources.Column{Heading: "OOM KILLS", Path: "oom_kills"})
}
