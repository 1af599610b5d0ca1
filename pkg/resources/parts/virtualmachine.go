package parts

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// VirtualMachine is a virtual machine. The ID is its reservation's.
type VirtualMachine = typed.Resource[VirtualMachineSpec, virtualMachines]

// VirtualMachinesType is its type.
const VirtualMachinesType = "VirtualMachines.croft"

// VirtualMachineSpec describes it.
type VirtualMachineSpec struct {
	node.VMInfo `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s VirtualMachineSpec) DeepCopy() VirtualMachineSpec {
	return s
}

// NewVirtualMachine makes its resource.
func NewVirtualMachine(v node.VMInfo) *VirtualMachine {
	r := typed.NewResource[VirtualMachineSpec, virtualMachines](resources.Metadata(resources.Node, "VirtualMachines", v.ID), VirtualMachineSpec{v})
	r.Metadata().Labels().Set(resources.LabelUser, v.User)
	r.Metadata().Labels().Set(resources.LabelWorkload, v.ID)
	return r
}

// virtualMachines is the type's definition.
type virtualMachines struct{}

// ResourceDefinition implements typed.Extension.
func (virtualMachines) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("VirtualMachines", resources.Node, nil,
		resources.Column{Heading: "STATE", Path: "state"}, resources.Column{Heading: "CPU", Path: "cpu"}, resources.Column{Heading: "MEMORY", Path: "memory"}, resources.Column{Heading: "ACCELERATOR", Path: "accelerator"}, resources.Column{Heading: "RESTARTS", Path: "restarts"}, resources.Column{Heading: "USER", Path: "user"}, resources.Column{Heading: "CAUSE", Path: "cause"}, resources.Column{Heading: "DRIFT", Path: "drift"})
}
