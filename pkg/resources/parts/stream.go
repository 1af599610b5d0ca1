package parts

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Stream is a stream of the node's log lines. The ID is its reservation's.
type Stream = typed.Resource[StreamSpec, streams]

// StreamsType is its type.
const StreamsType = "Streams.croft"

// StreamSpec describes it.
type StreamSpec struct {
	node.DebugInfo `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s StreamSpec) DeepCopy() StreamSpec {
	return s
}

// NewStream makes its resource.
func NewStream(d node.DebugInfo) *Stream {
	r := typed.NewResource[StreamSpec, streams](resources.Metadata(resources.Node, "Streams", d.ID), StreamSpec{d})
	r.Metadata().Labels().Set(resources.LabelUser, d.User)
	r.Metadata().Labels().Set(resources.LabelWorkload, d.ID)
	return r
}

// streams is the type's definition.
type streams struct{}

// ResourceDefinition implements typed.Extension.
func (streams) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Streams", resources.Node, nil,
		resources.Column{Heading: "USER", Path: "user"}, resources.Column{Heading: "CHANNEL", Path: "channel"}, resources.Column{Heading: "CONNECTED", Path: "connected"}, resources.Column{Heading: "SENT", Path: "sent"}, resources.Column{Heading: "DROPPED", Path: "dropped"}, resources.Column{Heading: "ERROR", Path: "last_error"})
}
