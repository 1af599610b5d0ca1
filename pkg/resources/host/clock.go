package host

import (
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Clock is the trust in the node's time. Its ID is Node. It changes when the trust does, not each second.
type Clock = typed.Resource[ClockSpec, clocks]

// ClocksType is its type.
const ClocksType = "Clocks.croft"

// ClockSpec describes the trust in the node's time.
type ClockSpec struct {
	// Now is the time, by what the node believes, at Read: when the machine's clock said that the trust had changed.
	Now time.Time `json:"now" yaml:"now" protobuf:"1"`
	// Trusted is whether Level is stop at least.
	Trusted bool `json:"trusted" yaml:"trusted" protobuf:"2"`
	// Level is the use that the time is good for: none, stop (judging dates, stopping
	// workloads) or remove (removing data, too).
	Level string `json:"level" yaml:"level" protobuf:"3"`
	// Source is the time's source: ntp, explorer-trusted, start (the
	// machine's own clock), explorer, or empty.
	Source string `json:"source" yaml:"source" protobuf:"4"`
	// Uptime is the node's uptime at Now, summed over reboots, in seconds.
	Uptime int64     `json:"uptime" yaml:"uptime" protobuf:"5"`
	Why    string    `json:"why" yaml:"why" protobuf:"6"`
	Read   time.Time `json:"read" yaml:"read" protobuf:"7"`
	// Conditions has one, Trusted.
	Conditions []resources.Condition `json:"conditions" yaml:"conditions" protobuf:"8"`
}

// Trusted is the condition of a clock that is trusted: as Trusted, with the reason TimeKnown or TimeUnknown.
const Trusted = "Trusted"

// Judged is s with its conditions; before is what was shown before.
func (s ClockSpec) Judged(before ClockSpec, now time.Time) ClockSpec {
	is := resources.Not(Trusted, "TimeUnknown", s.Why)
	if s.Trusted {
		is = resources.Is(Trusted, "TimeKnown", s.Why)
	}
	s.Conditions = resources.Dated([]resources.Condition{is}, before.Conditions, now)
	return s
}

// DeepCopy implements typed.DeepCopyable.
func (s ClockSpec) DeepCopy() ClockSpec {
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// NewClock makes the resource.
func NewClock(s ClockSpec) *Clock {
	return typed.NewResource[ClockSpec, clocks](resources.Metadata(resources.Node, "Clocks", Node), s)
}

// clocks is the type's definition.
type clocks struct{}

// ResourceDefinition implements typed.Extension.
func (clocks) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Clocks", resources.Node, nil,
		resources.Column{Heading: "TRUSTED", Path: "trusted"},
		resources.Column{Heading: "LEVEL", Path: "level"},
		resources.Column{Heading: "SOURCE", Path: "source"},
		resources.Column{Heading: "WHY", Path: "why"})
}
