package host

import (
	"maps"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/resources"
)

// Store is the node's store, or a mirror of it. The ID of the one that is the truth is Node; the others are named by their instances.
type Store = typed.Resource[StoreSpec, stores]

// StoresType is its type.
const StoresType = "Stores.croft"

// StoreSpec describes a store.
type StoreSpec struct {
	Birth string    `json:"birth" yaml:"birth" protobuf:"1"`
	Born  time.Time `json:"born,omitzero" yaml:"born,omitempty" protobuf:"2"`
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
	// Mirror describes a mirror, which has nothing of the above; nil for the truth.
	Mirror *MirrorSpec `json:"mirror,omitempty" yaml:"mirror,omitempty" protobuf:"12"`
	// Refused counts by cause, since the start of the node's process, the reservations that weren't taken. They make no events.
	Refused map[string]uint64 `json:"refused" yaml:"refused" protobuf:"13"`
}

// MirrorSpec describes a mirror of the store.
type MirrorSpec struct {
	// Instance is its name, Place where it is, as the settings have it.
	Instance string `json:"instance" yaml:"instance" protobuf:"1"`
	Place    string `json:"place" yaml:"place" protobuf:"2"`
	// Up is whether it can be written to.
	Up bool `json:"up" yaml:"up" protobuf:"3"`
	// Lag is how many names of the store have changed and aren't on the mirror yet, Oldest when the first of them changed.
	Lag    int       `json:"lag" yaml:"lag" protobuf:"4"`
	Oldest time.Time `json:"oldest,omitzero" yaml:"oldest,omitempty" protobuf:"5"`
	// Complete is whether a store can be restored from it, Listed the date of its list.
	Complete bool      `json:"complete" yaml:"complete" protobuf:"6"`
	Listed   time.Time `json:"listed,omitzero" yaml:"listed,omitempty" protobuf:"7"`
	// Held is whether it is left as it is because it has another store's files.
	Held bool `json:"held" yaml:"held" protobuf:"8"`
	// Error is the last failure since the last success, Since when it was.
	Error string    `json:"error,omitempty" yaml:"error,omitempty" protobuf:"9"`
	Since time.Time `json:"since,omitzero" yaml:"since,omitempty" protobuf:"10"`
	// Unfit counts the files that can't be mirrored.
	Unfit int `json:"unfit" yaml:"unfit" protobuf:"11"`
	// Latency is the mean time that the latest changes took, in seconds.
	Latency float64 `json:"latency" yaml:"latency" protobuf:"12"`
}

// DeepCopy implements typed.DeepCopyable.
func (s StoreSpec) DeepCopy() StoreSpec {
	if s.Mirror != nil {
		mirror := *s.Mirror
		s.Mirror = &mirror
	}
	s.Quarantined, s.Deployed, s.Records, s.Drifts = slices.Clone(s.Quarantined), maps.Clone(s.Deployed), maps.Clone(s.Records), maps.Clone(s.Drifts)
	s.Refused = maps.Clone(s.Refused)
	return s
}

// NewStore makes the resource.
func NewStore(s StoreSpec) *Store {
	id := Node
	if s.Mirror != nil {
		id = s.Mirror.Instance
	}
	return typed.NewResource[StoreSpec, stores](resources.Metadata(resources.Node, "Stores", id), s)
}

// stores is the type's definition.
type stores struct{}

// ResourceDefinition implements typed.Extension.
func (stores) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Stores", resources.Node, nil,
		resources.Column{Heading: "BIRTH", Path: "birth"},
		resources.Column{Heading: "BORN", Path: "born"},
		resources.Column{Heading: "UNDELIVERED", Path: "undelivered"},
		resources.Column{Heading: "RESTORED", Path: "restored"},
		resources.Column{Heading: "UP", Path: "mirror.up"},
		resources.Column{Heading: "LAG", Path: "mirror.lag"},
		resources.Column{Heading: "COMPLETE", Path: "mirror.complete"},
		resources.Column{Heading: "AS OF", Path: "mirror.listed"},
		resources.Column{Heading: "ERROR", Path: "mirror.error"})
}
