package host

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Host is the machine. Its ID is Node.
type Host = typed.Resource[HostSpec, hosts]

// HostsType is its type.
const HostsType = "Hosts.croft"

// HostSpec describes the machine.
type HostSpec struct { //nolint:revive // as each resource's spec is named
	node.HostInfo `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s HostSpec) DeepCopy() HostSpec {
	s.Addresses = slices.Clone(s.Addresses)
	return s
}

// NewHost makes the resource.
func NewHost(h node.HostInfo) *Host {
	return typed.NewResource[HostSpec, hosts](resources.Metadata(resources.Node, "Hosts", Node), HostSpec{h})
}

// hosts is the type's definition.
type hosts struct{}

// ResourceDefinition implements typed.Extension.
func (hosts) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Hosts", resources.Node, nil,
		resources.Column{Heading: "HOSTNAME", Path: "hostname"},
		resources.Column{Heading: "KERNEL", Path: "kernel"},
		resources.Column{Heading: "CORES", Path: "cores"},
		resources.Column{Heading: "MEMORY", Path: "memory"})
}
