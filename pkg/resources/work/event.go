package work

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Event is something that has happened to an object. Repetitions of it are counted.
type Event = typed.Resource[EventSpec, events]

// EventsType is its type.
const EventsType = "Events.croft"

// Kinds of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Operations: what kind of change an event is about.
const (
	// Put makes or changes a workload, Delete takes it off the node, Purge removes the memory of it.
	Put    = "Put"
	Delete = "Delete"
	Purge  = "Purge"
	// Secondary is a change of something that the node has made for a workload.
	Secondary = "Secondary"
)

// EventSpec describes an event.
type EventSpec struct {
	// Kind is Normal or Warning.
	Kind string `json:"kind" yaml:"kind" protobuf:"1"`
	// Reason is one word in UpperCamelCase, for programs; see Reasons.
	Reason    string `json:"reason" yaml:"reason" protobuf:"2"`
	Operation string `json:"operation,omitempty" yaml:"operation,omitempty" protobuf:"3"`
	// Object is the object's type and ID, such as "container/5-1"; User is the user to whom it belongs, empty for
	// an object of the node.
	Object string `json:"object" yaml:"object" protobuf:"4"`
	User   string `json:"user,omitempty" yaml:"user,omitempty" protobuf:"5"`
	// Message is for people.
	Message string `json:"message" yaml:"message" protobuf:"6"`
	// Count is how often it has happened, from First to Last.
	Count int       `json:"count" yaml:"count" protobuf:"7"`
	First time.Time `json:"first" yaml:"first" protobuf:"8"`
	Last  time.Time `json:"last" yaml:"last" protobuf:"9"`
}

// DeepCopy implements typed.DeepCopyable.
func (s EventSpec) DeepCopy() EventSpec { return s }

// NewEvent makes the resource of an event.
func NewEvent(id string, s EventSpec) *Event {
	return typed.NewResource[EventSpec, events](resources.Metadata(resources.History, "Events", id), s)
}

// events is the type's definition.
type events struct{}

// ResourceDefinition implements typed.Extension.
func (events) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Events", resources.History, nil,
		resources.Column{Heading: "LAST", Path: "last"}, resources.Column{Heading: "KIND", Path: "kind"}, resources.Column{Heading: "REASON", Path: "reason"},
		resources.Column{Heading: "OPERATION", Path: "operation"}, resources.Column{Heading: "OBJECT", Path: "object"},
		resources.Column{Heading: "COUNT", Path: "count"}, resources.Column{Heading: "MESSAGE", Path: "message"})
}
