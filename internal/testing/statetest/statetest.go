// Package statetest composes a small state for tests of what reads and serves states: namespaces, a
// registry, and three types. It stands for a node's state and registers its types once a process.
package statetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/resource/typed"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/cosi-project/runtime/pkg/state/registry"
)

// The types, and a namespace of each.
const (
	WorkloadType = "Workloads.croft"
	OrderType    = "Orders.croft"
	SecretType   = "WorkloadSecrets.croft"

	Node    = "node"
	Orders  = "orders"
	History = "history"
)

// Condition is one of a workload.
type Condition struct {
	Type    string    `yaml:"type" protobuf:"1"`
	Status  string    `yaml:"status" protobuf:"2"`
	Reason  string    `yaml:"reason" protobuf:"3"`
	Message string    `yaml:"message" protobuf:"4"`
	Since   time.Time `yaml:"since" protobuf:"5"`
}

// WorkloadSpec is what a Workload says.
type WorkloadSpec struct {
	Kind       string      `yaml:"kind" protobuf:"1"`
	Phase      string      `yaml:"phase" protobuf:"2"`
	Attempts   uint32      `yaml:"attempts" protobuf:"3"`
	Message    string      `yaml:"message" protobuf:"4"`
	Conditions []Condition `yaml:"conditions" protobuf:"5"`
}

// DeepCopy copies the spec.
func (s WorkloadSpec) DeepCopy() WorkloadSpec {
	s.Conditions = append([]Condition(nil), s.Conditions...)
	return s
}

// Workload is a resource of namespace node.
type Workload = typed.Resource[WorkloadSpec, workloadDefinition]

type workloadDefinition struct{}

func (workloadDefinition) ResourceDefinition() meta.ResourceDefinitionSpec {
	return meta.ResourceDefinitionSpec{
		Type: WorkloadType, DefaultNamespace: Node, Aliases: []resource.Type{"wl"},
		PrintColumns: []meta.PrintColumn{
			{Name: "Kind", JSONPath: "{.kind}"},
			{Name: "Phase", JSONPath: "{.phase}"},
			{Name: "Provisioned", JSONPath: `{.conditions[?(@.type=="Provisioned")].status}`},
			{Name: "Message", JSONPath: "{.message}"},
		},
	}
}

// OrderSpec is what an Order says; Status is the node's.
type OrderSpec struct {
	Action string            `yaml:"action" protobuf:"1"`
	Target string            `yaml:"target" protobuf:"2"`
	Status string            `yaml:"status" protobuf:"3"`
	Notes  map[string]string `yaml:"notes" protobuf:"4"`
}

// DeepCopy copies the spec.
func (s OrderSpec) DeepCopy() OrderSpec {
	notes := s.Notes
	if s.Notes != nil {
		s.Notes = map[string]string{}
	}
	for k, v := range notes {
		s.Notes[k] = v
	}
	return s
}

// Order is a resource of namespace orders.
type Order = typed.Resource[OrderSpec, orderDefinition]

type orderDefinition struct{}

func (orderDefinition) ResourceDefinition() meta.ResourceDefinitionSpec {
	return meta.ResourceDefinitionSpec{
		Type: OrderType, DefaultNamespace: Orders,
		PrintColumns: []meta.PrintColumn{{Name: "Action", JSONPath: "{.action}"}, {Name: "Status", JSONPath: "{.status}"}},
	}
}

// SecretSpec is what nobody may dump.
type SecretSpec struct {
	Value string `yaml:"value" protobuf:"1"`
}

// DeepCopy copies the spec.
func (s SecretSpec) DeepCopy() SecretSpec { return s }

// Secret is a sensitive resource of namespace node.
type Secret = typed.Resource[SecretSpec, secretDefinition]

type secretDefinition struct{}

func (secretDefinition) ResourceDefinition() meta.ResourceDefinitionSpec {
	return meta.ResourceDefinitionSpec{Type: SecretType, DefaultNamespace: Node, Sensitivity: meta.Sensitive}
}

// registered registers the types with the library, which allows it once a process.
var registered = sync.OnceValue(func() error {
	if err := protobuf.RegisterDynamic[WorkloadSpec](WorkloadType, &Workload{}); err != nil {
		return err
	}
	if err := protobuf.RegisterDynamic[OrderSpec](OrderType, &Order{}); err != nil {
		return err
	}
	return protobuf.RegisterDynamic[SecretSpec](SecretType, &Secret{})
})

// New composes a state with its registry.
func New(ctx context.Context) (state.State, error) {
	if err := registered(); err != nil {
		return nil, err
	}
	st := state.WrapCore(namespaced.NewState(inmem.Build))
	namespaces, types := registry.NewNamespaceRegistry(st), registry.NewResourceRegistry(st)
	if err := namespaces.RegisterDefault(ctx); err != nil {
		return nil, err
	}
	for _, ns := range []string{Node, Orders, History} {
		if err := namespaces.Register(ctx, ns, "of the tests"); err != nil {
			return nil, err
		}
	}
	if err := types.RegisterDefault(ctx); err != nil {
		return nil, err
	}
	for _, r := range []meta.ResourceWithRD{&Workload{}, &Order{}, &Secret{}} {
		if err := types.Register(ctx, r); err != nil {
			return nil, fmt.Errorf("%T: %w", r, err)
		}
	}
	return st, nil
}

// NewWorkload makes a workload.
func NewWorkload(id string, spec WorkloadSpec) *Workload {
	return typed.NewResource[WorkloadSpec, workloadDefinition](resource.NewMetadata(Node, WorkloadType, id, resource.VersionUndefined), spec)
}

// NewOrder makes an order.
func NewOrder(id string, spec OrderSpec) *Order {
	return typed.NewResource[OrderSpec, orderDefinition](resource.NewMetadata(Orders, OrderType, id, resource.VersionUndefined), spec)
}

// NewSecret makes a secret.
func NewSecret(id, value string) *Secret {
	return typed.NewResource[SecretSpec, secretDefinition](resource.NewMetadata(Node, SecretType, id, resource.VersionUndefined), SecretSpec{Value: value})
}

// Answered is a state whose changes wait for their answer, whatever becomes of their context: the library's suite cancels a
// context once it sees what a change has done, which a socket may tell sooner than it answers the change.
func Answered(core state.CoreState) state.State { return state.WrapCore(answered{core}) }

type answered struct{ state.CoreState }

// answerPatience is how long an answer is waited for.
const answerPatience = time.Minute

// Update implements state.CoreState.
func (a answered) Update(ctx context.Context, r resource.Resource, o ...state.UpdateOption) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	return a.CoreState.Update(ctx, r, o...)
}

// Destroy implements state.CoreState.
func (a answered) Destroy(ctx context.Context, p resource.Pointer, o ...state.DestroyOption) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	return a.CoreState.Destroy(ctx, p, o...)
}
