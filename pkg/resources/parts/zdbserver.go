package parts

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// ZDBServer is an attached zdb container. The ID is the container's.
type ZDBServer = typed.Resource[ZDBServerSpec, zdbServers]

// ZDBServersType is its type.
const ZDBServersType = "ZDBServers.croft"

// ZDBServerSpec describes it.
type ZDBServerSpec struct {
	node.ZDBServer `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ZDBServerSpec) DeepCopy() ZDBServerSpec {
	return s
}

// NewZDBServer makes its resource.
func NewZDBServer(z node.ZDBServer) *ZDBServer {
	r := typed.NewResource[ZDBServerSpec, zdbServers](resources.Metadata(resources.Node, "ZDBServers", z.Container), ZDBServerSpec{z})
	return r
}

// zdbServers is the type's definition.
type zdbServers struct{}

// ResourceDefinition implements typed.Extension.
func (zdbServers) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("ZDBServers", resources.Node, []string{"zdb"},
		resources.Column{Heading: "MODE", Path: "mode"}, resources.Column{Heading: "IPV4", Path: "ipv4"}, resources.Column{Heading: "IPV6", Path: "ipv6"}, resources.Column{Heading: "PORT", Path: "port"}, resources.Column{Heading: "NAMESPACES", Path: "namespaces"}, resources.Column{Heading: "DRIFT", Path: "drift"})
}
