package host

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Explorer is the contact with the explorer. Its ID is Node.
type Explorer = typed.Resource[ExplorerSpec, explorers]

// ExplorersType is its type.
const ExplorersType = "Explorers.croft"

// ExplorerSpec describes the contact with the explorer.
type ExplorerSpec struct {
	// URL is the explorer's, empty where none is configured.
	URL string `json:"url" yaml:"url" protobuf:"1"`
	// LastContact is the time of its last good answer since the start, zero for never; it is at most some seconds old.
	LastContact *time.Time `json:"last_contact" yaml:"last_contact,omitempty" protobuf:"2"`
	// LastError is the last failure since; empty without one.
	LastError string `json:"last_error,omitempty" yaml:"last_error,omitempty" protobuf:"3"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ExplorerSpec) DeepCopy() ExplorerSpec {
	if s.LastContact != nil {
		at := *s.LastContact
		s.LastContact = &at
	}
	return s
}

// NewExplorer makes the resource.
func NewExplorer(s ExplorerSpec) *Explorer {
	return typed.NewResource[ExplorerSpec, explorers](resources.Metadata(resources.Node, "Explorers", Node), s)
}

// explorers is the type's definition.
type explorers struct{}

// ResourceDefinition implements typed.Extension.
func (explorers) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Explorers", resources.Node, nil,
		resources.Column{Heading: "URL", Path: "url"},
		resources.Column{Heading: "LAST CONTACT", Path: "last_contact"},
		resources.Column{Heading: "ERROR", Path: "last_error"})
}
