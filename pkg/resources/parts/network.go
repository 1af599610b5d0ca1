package parts

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Network is a user's private network on this node. The ID is the ID of its newest reservation.
type Network = typed.Resource[NetworkSpec, networks]

// NetworksType is its type.
const NetworksType = "Networks.croft"

// NetworkSpec describes it.
type NetworkSpec struct {
	node.NetworkInfo `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s NetworkSpec) DeepCopy() NetworkSpec {
	s.Peers = slices.Clone(s.Peers)
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		s.Members[i].IPs = slices.Clone(s.Members[i].IPs)
	}
	return s
}

// NewNetwork makes its resource.
func NewNetwork(n node.NetworkInfo) *Network {
	r := typed.NewResource[NetworkSpec, networks](resources.Metadata(resources.Node, "Networks", n.Label), NetworkSpec{n})
	r.Metadata().Labels().Set(resources.LabelUser, n.User)
	r.Metadata().Labels().Set(resources.LabelWorkload, n.Label)
	return r
}

// networks is the type's definition.
type networks struct{}

// ResourceDefinition implements typed.Extension.
func (networks) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Networks", resources.Node, nil,
		resources.Column{Heading: "NAME", Path: "name"}, resources.Column{Heading: "SUBNET", Path: "subnet"}, resources.Column{Heading: "PORT", Path: "listen_port"}, resources.Column{Heading: "TUNNEL", Path: "backend"}, resources.Column{Heading: "DRIFT", Path: "drift"})
}
