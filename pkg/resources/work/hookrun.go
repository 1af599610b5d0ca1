package work

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// HookRun is the last run of a hook. Its ID is the hook's name.
type HookRun = typed.Resource[HookRunSpec, hookRuns]

// HookRunsType is its type.
const HookRunsType = "HookRuns.croft"

// HookRunSpec describes a run of a hook that has ended.
type HookRunSpec struct {
	Hook    string    `json:"hook" yaml:"hook" protobuf:"1"`
	Started time.Time `json:"started" yaml:"started" protobuf:"2"`
	Ended   time.Time `json:"ended" yaml:"ended" protobuf:"3"`
	// Exit is the program's exit status; -1 when it was killed or couldn't be started.
	Exit int `json:"exit" yaml:"exit" protobuf:"4"`
	// Error is why the run failed, empty when it didn't; Output is the end of what the program wrote.
	Error  string `json:"error,omitempty" yaml:"error,omitempty" protobuf:"5"`
	Output string `json:"output,omitempty" yaml:"output,omitempty" protobuf:"6"`
	// Reason and Object are those of the event that started it, empty when the schedule did.
	Reason string `json:"reason,omitempty" yaml:"reason,omitempty" protobuf:"7"`
	Object string `json:"object,omitempty" yaml:"object,omitempty" protobuf:"8"`
}

// DeepCopy implements typed.DeepCopyable.
func (s HookRunSpec) DeepCopy() HookRunSpec { return s }

// NewHookRun makes the resource of a run.
func NewHookRun(s HookRunSpec) *HookRun {
	return typed.NewResource[HookRunSpec, hookRuns](resources.Metadata(resources.Node, "HookRuns", s.Hook), s)
}

// hookRuns is the type's definition.
type hookRuns struct{}

// ResourceDefinition implements typed.Extension.
func (hookRuns) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("HookRuns", resources.Node, nil,
		resources.Column{Heading: "STARTED", Path: "started"}, resources.Column{Heading: "ENDED", Path: "ended"}, resources.Column{Heading: "EXIT", Path: "exit"},
		resources.Column{Heading: "REASON", Path: "reason"}, resources.Column{Heading: "OBJECT", Path: "object"}, resources.Column{Heading: "ERROR", Path: "error"})
}
