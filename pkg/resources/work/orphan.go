package work

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/workload"
)

// Orphan is something on the node that has croft's label, and that no record wants.
type Orphan = typed.Resource[OrphanSpec, orphans]

// OrphansType is its type.
const OrphansType = "Orphans.croft"

// OrphanSpec describes an orphan.
type OrphanSpec struct {
	Type workload.Type `json:"type" yaml:"type" protobuf:"1"`
	// ID and Hash are its label's; Hash is empty where the label has none.
	ID   string `json:"id" yaml:"id" protobuf:"2"`
	Hash string `json:"hash,omitempty" yaml:"hash,omitempty" protobuf:"3"`
	// Since is when it was first seen, zero while the clock can't be trusted. It is removed after the grace period.
	Since time.Time `json:"since" yaml:"since" protobuf:"4"`
}

// DeepCopy implements typed.DeepCopyable.
func (s OrphanSpec) DeepCopy() OrphanSpec { return s }

// NewOrphan makes the resource of an orphan.
func NewOrphan(s OrphanSpec) *Orphan {
	id := string(s.Type) + "/" + s.ID
	if s.Hash != "" {
		id += "/" + s.Hash
	}
	return typed.NewResource[OrphanSpec, orphans](resources.Metadata(resources.Node, "Orphans", id), s)
}

// orphans is the type's definition.
type orphans struct{}

// ResourceDefinition implements typed.Extension.
func (orphans) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Orphans", resources.Node, nil,
		resources.Column{Heading: "TYPE", Path: "type"}, resources.Column{Heading: "WORKLOAD", Path: "id"}, resources.Column{Heading: "SINCE", Path: "since"})
}
