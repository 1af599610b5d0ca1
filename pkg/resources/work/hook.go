package work

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Hook is a program of the operator that runs on a schedule or on events. Its ID is its name, or that of a file that
// isn't used.
type Hook = typed.Resource[HookSpec, hooks]

// HooksType is its type.
const HooksType = "Hooks.croft"

// HookSpec describes a hook.
type HookSpec struct {
	Name  string `json:"name" yaml:"name" protobuf:"1"`
	Queue string `json:"queue,omitempty" yaml:"queue,omitempty" protobuf:"2"`
	// Next is when its schedule starts it next, zero without a schedule.
	Next time.Time `json:"next,omitzero" yaml:"next,omitempty" protobuf:"3"`
	// Refused is why its file isn't used; empty when it is.
	Refused string `json:"refused,omitempty" yaml:"refused,omitempty" protobuf:"4"`
}

// DeepCopy implements typed.DeepCopyable.
func (s HookSpec) DeepCopy() HookSpec { return s }

// NewHook makes the resource of a hook.
func NewHook(s HookSpec) *Hook {
	return typed.NewResource[HookSpec, hooks](resources.Metadata(resources.Node, "Hooks", s.Name), s)
}

// hooks is the type's definition.
type hooks struct{}

// ResourceDefinition implements typed.Extension.
func (hooks) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Hooks", resources.Node, nil,
		resources.Column{Heading: "QUEUE", Path: "queue"}, resources.Column{Heading: "NEXT", Path: "next"}, resources.Column{Heading: "REFUSED", Path: "refused"})
}
