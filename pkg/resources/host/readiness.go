package host

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Readiness is whether the node takes new reservations. Its ID is Node.
type Readiness = typed.Resource[ReadinessSpec, readinesses]

// ReadinessesType is its type.
const ReadinessesType = "Readinesses.croft"

// Level classifies a check's outcome.
type Level string

// The levels. Only Failing makes a node not ready to take new reservations.
const (
	Good    Level = "ok"
	Warning Level = "warning"
	Failing Level = "failing"
)

// Check is one check and its outcome.
type Check struct {
	Name   string `json:"name" yaml:"name" protobuf:"1"`
	Level  Level  `json:"level" yaml:"level" protobuf:"2"`
	Detail string `json:"detail" yaml:"detail" protobuf:"3"`
}

// Pass is a check that found nothing wrong.
func Pass(name, detail string) Check { return Check{Name: name, Level: Good, Detail: detail} }

// Warn is a check that found something for the operator.
func Warn(name, detail string) Check { return Check{Name: name, Level: Warning, Detail: detail} }

// Fail is a check that keeps the node from taking new reservations.
func Fail(name, detail string) Check { return Check{Name: name, Level: Failing, Detail: detail} }

// ReadinessSpec is the outcome of all checks.
type ReadinessSpec struct {
	Ready  bool    `json:"ready" yaml:"ready" protobuf:"1"`
	Checks []Check `json:"checks" yaml:"checks" protobuf:"2"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ReadinessSpec) DeepCopy() ReadinessSpec {
	s.Checks = slices.Clone(s.Checks)
	return s
}

// NewReadiness makes the resource.
func NewReadiness(s ReadinessSpec) *Readiness {
	return typed.NewResource[ReadinessSpec, readinesses](resources.Metadata(resources.Node, "Readinesses", Node), s)
}

// readinesses is the type's definition.
type readinesses struct{}

// ResourceDefinition implements typed.Extension.
func (readinesses) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Readinesses", resources.Node, nil,
		resources.Column{Heading: "READY", Path: "ready"})
}
