package host

import (
	"maps"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Store is the node's store. The ID of the one that is the truth is Node.
type Store = typed.Resource[StoreSpec, stores]

// StoresType is its type.
const StoresType = "Stores.croft"

// StoreSpec describes a store.
type StoreSpec struct {
	Birth string    `json:"birth" yaml:"birth" protobuf:"1"`
	Born  time.Time `json:"born" yaml:"born,omitempty" protobuf:"2"`
	// AcceptOlder is whether reservations older than Born are accepted.
	AcceptOlder bool `json:"accept_older" yaml:"accept_older" protobuf:"3"`
	// Quarantined are the files that could not be read.
	Quarantined []string `json:"quarantined" yaml:"quarantined,omitempty" protobuf:"4"`
	// Restored is whether every record was compared with the node since the start.
	Restored bool `json:"restored" yaml:"restored" protobuf:"5"`
	// Deployed counts the deployed workloads that haven't expired, by type.
	Deployed map[string]int64 `json:"deployed" yaml:"deployed" protobuf:"6"`
	// Records counts the records by phase.
	Records map[string]int `json:"records" yaml:"records" protobuf:"7"`
	// Undelivered counts the results that the explorer doesn't have.
	Undelivered int `json:"undelivered" yaml:"undelivered" protobuf:"8"`
	// Drifts counts by type, since the start, workloads that were gone or changed.
	Drifts map[string]uint64 `json:"drifts" yaml:"drifts" protobuf:"9"`
	// DoorRestarts counts the restarts of the process of the node's door, DroppedEvents the events that weren't recorded.
	DoorRestarts  uint64 `json:"door_restarts" yaml:"door_restarts" protobuf:"10"`
	DroppedEvents int64  `json:"dropped_events" yaml:"dropped_events" protobuf:"11"`
}

// DeepCopy implements typed.DeepCopyable.
func (s StoreSpec) DeepCopy() StoreSpec {
	s.Quarantined, s.Deployed, s.Records, s.Drifts = slices.Clone(s.Quarantined), maps.Clone(s.Deployed), maps.Clone(s.Records), maps.Clone(s.Drifts)
	return s
}

// NewStore makes the resource.
func NewStore(s StoreSpec) *Store {
	return typed.NewResource[StoreSpec, stores](resources.Metadata(resources.Node, "Stores", Node), s)
}

// stores is the type's definition.
type stores struct{}

// ResourceDefinition implements typed.Extension.
func (stores) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Stores", resources.Node, nil,
		resources.Column{Heading: "BIRTH", Path: "birth"},
		resources.Column{Heading: "BORN", Path: "born"},
		resources.Column{Heading: "UNDELIVERED", Path: "undelivered"},
		resources.Column{Heading: "RESTORED", Path: "restored"})
}
