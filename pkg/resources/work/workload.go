package work

import (
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/workload"
)

// Workload is one record of the node's store. Its ID is the reservation's. Its finalizers are the workloads that use
// it, such as "container/5-1" of a volume: it leaves the node after them.
type Workload = typed.Resource[WorkloadSpec, workloads]

// WorkloadsType is its type.
const WorkloadsType = "Workloads.croft"

// The conditions of a workload.
const (
	// Accepted: its user has signed it for this node, and the node has taken it in.
	Accepted = "Accepted"
	// Admitted: its room is promised to it.
	Admitted = "Admitted"
	// Prepared: what it needs, such as an image, is on the node.
	Prepared = "Prepared"
	// Provisioned: it is on the node.
	Provisioned = "Provisioned"
	// InSync: what is on the node is as it was made.
	InSync = "InSync"
	// Reported: the explorer has its newest result.
	Reported = "Reported"
)

// WorkloadSpec is an operator's view of a workload.
type WorkloadSpec struct {
	ID    string        `json:"id" yaml:"id" protobuf:"1"`
	Type  workload.Type `json:"type" yaml:"type" protobuf:"2"`
	User  string        `json:"user" yaml:"user" protobuf:"3"`
	Phase string        `json:"phase" yaml:"phase" protobuf:"4"`
	// State is that of its newest result, empty without one; ResultError is the error in it. Delivered is whether the
	// explorer has it.
	State       workload.State `json:"state,omitempty" yaml:"state,omitempty" protobuf:"5"`
	ResultError string         `json:"result_error,omitempty" yaml:"result_error,omitempty" protobuf:"6"`
	Delivered   bool           `json:"delivered" yaml:"delivered" protobuf:"7"`
	// Attempts counts the attempts of the current provision or decommission; Error is
	// why the last one failed, NextAttempt when the next one is due (zero for none).
	Attempts    int       `json:"attempts" yaml:"attempts" protobuf:"8"`
	Error       string    `json:"cause,omitempty" yaml:"cause,omitempty" protobuf:"9"`
	NextAttempt time.Time `json:"next_attempt,omitzero" yaml:"next_attempt,omitempty" protobuf:"10"`
	// Pending is what it waits for, empty for nothing.
	Pending string `json:"waiting,omitempty" yaml:"waiting,omitempty" protobuf:"11"`
	// Expires is its signed end.
	Expires time.Time `json:"expires" yaml:"expires" protobuf:"12"`
	// Restored counts its repairs since the start, after it was gone or changed; Drift
	// is the last time, nil for never.
	Restored int    `json:"restored" yaml:"restored" protobuf:"13"`
	Drift    *Drift `json:"drift,omitempty" yaml:"drift,omitempty" protobuf:"14"`
	// Users are the workloads that use it, in order: its finalizers.
	Users []string `json:"users,omitempty" yaml:"users,omitempty" protobuf:"15"`
	// Flights are its effects that are under way.
	Flights    []Flight              `json:"flights,omitempty" yaml:"flights,omitempty" protobuf:"16"`
	Conditions []resources.Condition `json:"conditions" yaml:"conditions" protobuf:"17"`
	// Pool is the pool that has its data, where the node knows that; Network the name of the network that it is in.
	Pool    string `json:"pool,omitempty" yaml:"pool,omitempty" protobuf:"18"`
	Network string `json:"network,omitempty" yaml:"network,omitempty" protobuf:"19"`
	// ResultAt is when its newest result was made, zero without one.
	ResultAt time.Time `json:"result_at,omitzero" yaml:"result_at,omitempty" protobuf:"20"`
}

// Drift is an observed difference between a workload and how it was made.
type Drift struct {
	At   time.Time `json:"at" yaml:"at" protobuf:"1"`
	What string    `json:"what" yaml:"what" protobuf:"2"`
}

// Flight is an effect that is under way, or waits for its turn.
type Flight struct {
	// Kind is what is done: fetch, provision, stop, decommission.
	Kind string `json:"kind" yaml:"kind" protobuf:"1"`
	// Since is when it was requested. Deadline is when it is given up, zero while it waits for its turn.
	Since    time.Time `json:"since" yaml:"since" protobuf:"2"`
	Deadline time.Time `json:"deadline,omitzero" yaml:"deadline,omitempty" protobuf:"3"`
	// Abandoned is whether it hasn't returned by its deadline.
	Abandoned bool `json:"abandoned,omitempty" yaml:"abandoned,omitempty" protobuf:"4"`
}

// DeepCopy implements typed.DeepCopyable.
func (s WorkloadSpec) DeepCopy() WorkloadSpec {
	if s.Drift != nil {
		c := *s.Drift
		s.Drift = &c
	}
	s.Users, s.Flights, s.Conditions = slices.Clone(s.Users), slices.Clone(s.Flights), slices.Clone(s.Conditions)
	return s
}

// NewWorkload makes the resource of a workload.
func NewWorkload(id string) *Workload {
	return typed.NewResource[WorkloadSpec, workloads](resources.Metadata(resources.Node, "Workloads", id), WorkloadSpec{})
}

// workloads is the type's definition.
type workloads struct{}

// ResourceDefinition implements typed.Extension.
func (workloads) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Workloads", resources.Node, []string{"wl"},
		resources.Column{Heading: "TYPE", Path: "type"}, resources.Column{Heading: "PHASE", Path: "phase"},
		resources.Column{Heading: "RESULT", Path: "state"}, resources.Column{Heading: "ATTEMPTS", Path: "attempts"},
		resources.Column{Heading: "EXPIRES", Path: "expires"}, resources.Column{Heading: "USER", Path: "user"},
		resources.Column{Heading: "CAUSE", Path: "cause"}, resources.Column{Heading: "WAITING", Path: "waiting"})
}
