package host

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// ModuleConfig is what a module was started as. Its ID is the module's name on the bus.
type ModuleConfig = typed.Resource[ModuleConfigSpec, moduleConfigs]

// ModuleConfigsType is its type.
const ModuleConfigsType = "ModuleConfigs.croft"

// ModuleConfigSpec describes a module's start.
type ModuleConfigSpec struct {
	// Name is the module's name on the bus, Command the command of croftd that runs it alone.
	Name    string `json:"name" yaml:"name" protobuf:"1"`
	Command string `json:"command" yaml:"command" protobuf:"2"`
	Summary string `json:"summary" yaml:"summary" protobuf:"3"`
	// Asked counts how often the module was to be asked out of turn.
	Asked int `json:"asked" yaml:"asked" protobuf:"4"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ModuleConfigSpec) DeepCopy() ModuleConfigSpec { return s }

// NewModuleConfig makes the resource.
func NewModuleConfig(s ModuleConfigSpec) *ModuleConfig {
	return typed.NewResource[ModuleConfigSpec, moduleConfigs](resources.Metadata(resources.Node, "ModuleConfigs", s.Name), s)
}

// moduleConfigs is the type's definition.
type moduleConfigs struct{}

// ResourceDefinition implements typed.Extension.
func (moduleConfigs) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("ModuleConfigs", resources.Node, nil,
		resources.Column{Heading: "COMMAND", Path: "command"},
		resources.Column{Heading: "SUMMARY", Path: "summary"})
}
