// Package resources is the vocabulary of the node's state: the namespaces, conditions and metadata that all
// types of resources share. The types are below: package host describes the node, package work what it does for its
// users, package parts what its modules have on the node, package registry lists them. Types and pure functions only.
package resources

import (
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
)

// The namespaces of the state.
const (
	// Node has what the node is, has and does. It is made anew at each start.
	Node resource.Namespace = "node"
	// Orders has the operator's orders. An order that isn't carried out when the node stops is gone.
	Orders resource.Namespace = "orders"
	// History has what has happened. It outlives restarts.
	History resource.Namespace = "history"
)

// suffix ends the name of each of croft's types.
const suffix = ".croft"

// Labels of resources, by which clients select them.
const (
	// LabelUser is the ID of the user to whom the resource belongs.
	LabelUser = "user"
	// LabelType is the type of workload.
	LabelType = "type"
	// LabelWorkload is the ID of the reservation to which a part on the node belongs.
	LabelWorkload = "workload"
	// LabelPool is the pool that has a workload's data, LabelNetwork the name of the network that a
	// workload is in.
	LabelPool    = "pool"
	LabelNetwork = "network"
)

// Column is a column of a table of resources: its heading, and the member of the spec that it shows. Path is the
// member's name, with dots, or a text with paths in braces, as package stateview reads them.
type Column struct{ Heading, Path string }

// Definition is the definition of a type of resources. Plural is its name, such as "Workloads".
func Definition(plural string, in resource.Namespace, aliases []string, columns ...Column) meta.ResourceDefinitionSpec {
	d := meta.ResourceDefinitionSpec{Type: Type(plural), DefaultNamespace: in, Aliases: aliases}
	for _, c := range columns {
		path := c.Path
		if !strings.Contains(path, "{") {
			path = "{." + path + "}"
		}
		d.PrintColumns = append(d.PrintColumns, meta.PrintColumn{Name: c.Heading, JSONPath: path})
	}
	return d
}

// Type is the full name of a type of resources.
func Type(plural string) resource.Type { return plural + suffix }

// Metadata is the metadata of a new resource.
func Metadata(in resource.Namespace, plural, id string) resource.Metadata {
	return resource.NewMetadata(in, Type(plural), id, resource.VersionUndefined)
}

// Status is whether a condition holds.
type Status string

// The statuses.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// Condition is one thing that is known of a resource.
type Condition struct {
	Type   string `yaml:"type" json:"type" protobuf:"1"`
	Status Status `yaml:"status" json:"status" protobuf:"2"`
	// Reason is one word in UpperCamelCase, for programs; Message is for people, and may be empty.
	Reason  string `yaml:"reason" json:"reason" protobuf:"3"`
	Message string `yaml:"message,omitempty" json:"message,omitempty" protobuf:"4"`
	// Since is when the condition got its status, as far as this run of the node knows.
	Since time.Time `yaml:"since" json:"since" protobuf:"5"`
}

// Is is a condition that holds.
func Is(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: True, Reason: reason, Message: message}
}

// Not is a condition that doesn't hold.
func Not(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: False, Reason: reason, Message: message}
}

// Unsure is a condition of which nobody knows whether it holds.
func Unsure(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: Unknown, Reason: reason, Message: message}
}

// Dated gives conditions their Since: that of the same condition before where its status is the same, else now.
// A condition that has a Since keeps it.
func Dated(next, before []Condition, now time.Time) []Condition {
	for i := range next {
		if !next[i].Since.IsZero() {
			continue
		}
		next[i].Since = now
		if old, ok := Find(before, next[i].Type); ok && old.Status == next[i].Status {
			next[i].Since = old.Since
		}
	}
	return next
}

// Find returns the condition of a type.
func Find(all []Condition, kind string) (Condition, bool) {
	for _, c := range all {
		if c.Type == kind {
			return c, true
		}
	}
	return Condition{}, false
}
