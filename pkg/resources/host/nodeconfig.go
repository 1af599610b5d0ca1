package host

import (
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// NodeConfig is what a node was started as. Its ID is Node.
type NodeConfig = typed.Resource[NodeConfigSpec, nodeConfigs]

// NodeConfigsType is its type.
const NodeConfigsType = "NodeConfigs.croft"

// NodeConfigSpec describes a node's start.
type NodeConfigSpec struct {
	NodeID  string    `json:"node_id" yaml:"node_id" protobuf:"1"`
	Version string    `json:"version" yaml:"version" protobuf:"2"`
	Commit  string    `json:"commit" yaml:"commit" protobuf:"3"`
	Started time.Time `json:"started" yaml:"started" protobuf:"4"`
	// OneProcess is whether modules run in the node's process; else Bus is the address of their bus, without its password.
	OneProcess bool   `json:"one_process" yaml:"one_process" protobuf:"5"`
	Bus        string `json:"bus,omitempty" yaml:"bus,omitempty" protobuf:"6"`
	// Farm is the farm that the node claims to belong to, 0 for none.
	Farm uint64 `json:"farm" yaml:"farm" protobuf:"7"`
	// Settings is the checksum of the settings in force, NeedsRestart the names of those that were changed since and take effect when croftd is started
	// again.
	Settings     string   `json:"settings" yaml:"settings" protobuf:"8"`
	NeedsRestart []string `json:"needs_restart,omitempty" yaml:"needs_restart,omitempty" protobuf:"9"`
	// Unserved are the operator's sockets that can't be served, each with the reason; the node tries again.
	Unserved []string `json:"unserved,omitempty" yaml:"unserved,omitempty" protobuf:"10"`
}

// DeepCopy implements typed.DeepCopyable.
func (s NodeConfigSpec) DeepCopy() NodeConfigSpec {
	s.NeedsRestart, s.Unserved = slices.Clone(s.NeedsRestart), slices.Clone(s.Unserved)
	return s
}

// NewNodeConfig makes the resource.
func NewNodeConfig(s NodeConfigSpec) *NodeConfig {
	return typed.NewResource[NodeConfigSpec, nodeConfigs](resources.Metadata(resources.Node, "NodeConfigs", Node), s)
}

// nodeConfigs is the type's definition.
type nodeConfigs struct{}

// ResourceDefinition implements typed.Extension.
func (nodeConfigs) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("NodeConfigs", resources.Node, nil,
		resources.Column{Heading: "NODE", Path: "node_id"},
		resources.Column{Heading: "VERSION", Path: "version"},
		resources.Column{Heading: "STARTED", Path: "started"},
		resources.Column{Heading: "FARM", Path: "farm"})
}
