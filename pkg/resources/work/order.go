package work

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Order is a decision of the machine's owner that the node has to carry out. Its client makes it and may withdraw it,
// by tearing it down, before it is done. The node writes its state.
type Order = typed.Resource[OrderSpec, orders]

// OrdersType is its type.
const OrdersType = "Orders.croft"

// Kinds of orders.
const (
	// Evict takes the workload Target off the node.
	Evict = "evict"
	// AcceptOlder has the node accept reservations from before its store's birth, RefuseOlder refuse them again.
	AcceptOlder = "accept-older"
	RefuseOlder = "refuse-older"
	// Restored gives the store a new birth, after it was restored from a backup.
	Restored = "restored"
	// ReplaceMirror gives up what the mirror Target has, which is another store's: it becomes this store's.
	ReplaceMirror = "replace-mirror"
	// Reload has the node read its settings and its hooks anew.
	Reload = "reload"
	// Look has the node look at everything that it shows and that nobody tells it of.
	Look = "look"
)

// The states of an order. One without a state is new.
const (
	OrderDone   = "done"
	OrderFailed = "failed"
)

// OrderSpec is an order and its state.
type OrderSpec struct {
	Kind string `json:"kind" yaml:"kind" protobuf:"1"`
	// Target is the ID of the workload or the instance of the mirror that the order is about; empty where it is about none.
	Target string `json:"target,omitempty" yaml:"target,omitempty" protobuf:"2"`
	// State is empty, OrderDone or OrderFailed; Error is the reason of a failure, ErrorKind its kind; At is when the
	// order got its state.
	State     string    `json:"state,omitempty" yaml:"state,omitempty" protobuf:"3"`
	ErrorKind node.Kind `json:"error_kind,omitempty" yaml:"error_kind,omitempty" protobuf:"4"`
	Error     string    `json:"error,omitempty" yaml:"error,omitempty" protobuf:"5"`
	At        time.Time `json:"at,omitzero" yaml:"at,omitempty" protobuf:"6"`
	// Answer is what the node says about an order that is done; mostly nothing.
	Answer string `json:"answer,omitempty" yaml:"answer,omitempty" protobuf:"7"`
}

// DeepCopy implements typed.DeepCopyable.
func (s OrderSpec) DeepCopy() OrderSpec { return s }

// NewOrder makes an order. The ID is its client's choice.
func NewOrder(id string, s OrderSpec) *Order {
	return typed.NewResource[OrderSpec, orders](resources.Metadata(resources.Orders, "Orders", id), s)
}

// orders is the type's definition.
type orders struct{}

// ResourceDefinition implements typed.Extension.
func (orders) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Orders", resources.Orders, nil,
		resources.Column{Heading: "KIND", Path: "kind"}, resources.Column{Heading: "TARGET", Path: "target"},
		resources.Column{Heading: "STATE", Path: "state"}, resources.Column{Heading: "ERROR", Path: "error"})
}
