package host

import (
	"reflect"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Module is a module as it answers on the bus. Its ID is its name there.
type Module = typed.Resource[ModuleSpec, modules]

// ModulesType is its type.
const ModulesType = "Modules.croft"

// Running is the condition of a module that answers.
const Running = "Running"

// ModuleSpec describes a module. The members below Conditions are the module's own description of its state; a module
// has at most its own.
type ModuleSpec struct {
	Name string `json:"name" yaml:"name" protobuf:"1"`
	// Error is why it doesn't answer, empty when it does.
	Error string `json:"error,omitempty" yaml:"error,omitempty" protobuf:"2"`
	// Phase is Disabled, Pending, Loading, Running or Failed; Reason says why it isn't running, in one word.
	Phase  string `json:"phase" yaml:"phase" protobuf:"5"`
	Reason string `json:"reason,omitempty" yaml:"reason,omitempty" protobuf:"6"`
	// Opened is when it was opened; zero while it doesn't run, and for a process of its own.
	Opened     time.Time             `json:"opened,omitzero" yaml:"opened,omitempty" protobuf:"7"`
	Conditions []resources.Condition `json:"conditions" yaml:"conditions" protobuf:"3"`
	// Kernel is what it lacks of the machine's kernel; nil for a module that needs none of the features that a kernel may be without.
	Kernel *node.KernelState `json:"kernel,omitempty" yaml:"kernel,omitempty" protobuf:"8"`
	// State is the JSON document of a module that has none of the members below.
	State string `json:"state,omitempty" yaml:"state,omitempty" protobuf:"4"`

	Storage   *Storage              `json:"storage,omitempty" yaml:"storage,omitempty" protobuf:"10"`
	Network   *node.NetworkStatus   `json:"network,omitempty" yaml:"network,omitempty" protobuf:"11"`
	Container *node.ContainerStatus `json:"container,omitempty" yaml:"container,omitempty" protobuf:"12"`
	Image     *node.ImageStatus     `json:"image,omitempty" yaml:"image,omitempty" protobuf:"13"`
	VM        *node.VMStatus        `json:"vm,omitempty" yaml:"vm,omitempty" protobuf:"14"`
	VMImage   *node.VMImageStatus   `json:"vm_image,omitempty" yaml:"vm_image,omitempty" protobuf:"15"`
}

// Storage is the storage module's own state.
type Storage struct {
	// Quota is the kind of quota in force: "simple" or "qgroup".
	Quota         string              `json:"quota" yaml:"quota" protobuf:"1"`
	BrokenDevices []node.BrokenDevice `json:"broken_devices" yaml:"broken_devices" protobuf:"2"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ModuleSpec) DeepCopy() ModuleSpec {
	s.Conditions = slices.Clone(s.Conditions)
	s.Storage, s.Network, s.Container = clone(s.Storage), clone(s.Network), clone(s.Container)
	s.Image, s.VM, s.VMImage = clone(s.Image), clone(s.VM), clone(s.VMImage)
	if s.Storage != nil {
		s.Storage.BrokenDevices = slices.Clone(s.Storage.BrokenDevices)
	}
	if s.Kernel = clone(s.Kernel); s.Kernel != nil {
		s.Kernel.Lacks = slices.Clone(s.Kernel.Lacks)
	}
	if s.Container != nil {
		s.Container.Missing = slices.Clone(s.Container.Missing)
	}
	return s
}

// SameButFigures reports whether two descriptions are alike but for the figures that always change, though nothing has happened: memory in use,
// and the used part of a file system that others write to as well.
func (s ModuleSpec) SameButFigures(other ModuleSpec) bool {
	return reflect.DeepEqual(s.withoutFigures(), other.withoutFigures())
}

func (s ModuleSpec) withoutFigures() ModuleSpec {
	s.Network, s.Container, s.Image = clone(s.Network), clone(s.Container), clone(s.Image)
	if s.Network != nil {
		s.Network.CarrierMemory = 0
	}
	if s.Container != nil {
		s.Container.LogCarrierMemory = 0
	}
	if s.Image != nil {
		s.Image.Used = 0
	}
	return s
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// NewModule makes the resource.
func NewModule(s ModuleSpec) *Module {
	return typed.NewResource[ModuleSpec, modules](resources.Metadata(resources.Node, "Modules", s.Name), s)
}

// modules is the type's definition.
type modules struct{}

// ResourceDefinition implements typed.Extension.
func (modules) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Modules", resources.Node, nil,
		resources.Column{Heading: "PHASE", Path: "phase"},
		resources.Column{Heading: "REASON", Path: "{.conditions[?@.type=='Running'].reason}"},
		resources.Column{Heading: "LACKS", Path: "{.kernel.lacks[*].feature}"},
		resources.Column{Heading: "ERROR", Path: "error"})
}
