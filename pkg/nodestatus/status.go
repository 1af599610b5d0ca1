// Package nodestatus holds the documents in which a node describes itself: its status, as the
// control socket and `croftd status -o json` return it, and its readiness, as /readyz does. Types
// only: package cmd/croftd fills them in.
package nodestatus

import (
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Status is the state of a node. Sizes are in bytes.
type Status struct {
	NodeID  string    `json:"node_id"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Started time.Time `json:"started"`
	// OneProcess is whether modules run in the node's process; else Bus is the
	// address of their bus.
	OneProcess bool   `json:"one_process"`
	Bus        string `json:"bus,omitempty"`

	// Adopted is whether every record of the store was checked since the start.
	Adopted bool `json:"adopted"`

	Store    Store    `json:"store"`
	Clock    Clock    `json:"clock"`
	Explorer Explorer `json:"explorer"`
	Modules  []Module `json:"modules"`
	Storage  Storage  `json:"storage"`
	// Networks are users' networks, Network the state of their module.
	Networks []node.NetworkInfo `json:"networks"`
	Network  node.NetworkStatus `json:"network"`
	// Containers are users' containers, Images the reservations' images; Container
	// and Image the state of their module. OwnContainers are those that the node
	// runs for itself, such as zdb's.
	Containers    []node.ContainerInfo `json:"containers"`
	OwnContainers []node.ContainerInfo `json:"own_containers"`
	Container     node.ContainerStatus `json:"container"`
	Images        []node.Image         `json:"images"`
	Image         node.ImageStatus     `json:"image"`
	// ZDB are the node's attached zdb containers.
	ZDB      []node.ZDBServer           `json:"zdb"`
	Streams  []node.DebugInfo           `json:"streams"`
	Counters workload.ProvisionCounters `json:"counters"`

	Workloads []Workload `json:"workloads"`
	// Ceilings are the limits of croft's own parts, and of all containers together.
	Ceilings []Ceiling `json:"ceilings"`

	Undelivered int      `json:"undelivered"`
	Orphans     []Orphan `json:"orphans"`
	// Drifts counts by type, since the start, workloads that were gone or changed.
	Drifts map[workload.Type]uint64 `json:"drifts"`
	// DoorRestarts counts the restarts of the process of the node's door.
	DoorRestarts uint64 `json:"door_restarts"`
}

// Ceiling is the control group's limits of a part of the node. Memory and Used,
// the part's memory that can't be reclaimed now, are in bytes; 0 is no limit.
type Ceiling struct {
	Part      string `json:"part"`
	Memory    uint64 `json:"memory"`
	Used      uint64 `json:"used"`
	PIDs      uint64 `json:"pids"`
	IOWeight  uint64 `json:"io_weight"`
	CPUWeight uint64 `json:"cpu_weight"`
	// OOMKills counts the part's processes that the kernel killed because memory
	// was short.
	OOMKills uint64 `json:"oom_kills"`
	// Missing are limits that this machine can't enforce.
	Missing []string `json:"missing"`
}

// Store is the state of the node's store.
type Store struct {
	Birth string    `json:"birth"`
	Born  time.Time `json:"born"`
	// AcceptOlder is whether reservations older than Born are accepted.
	AcceptOlder bool `json:"accept_older"`
	// Quarantined are the files that could not be read.
	Quarantined []string `json:"quarantined"`
}

// Clock is the trust in the node's time.
type Clock struct {
	Now time.Time `json:"now"`
	// Trusted is whether Level is stop at least.
	Trusted bool `json:"trusted"`
	// Level is the use that the time is good for: none, stop (judging dates, stopping
	// workloads) or remove (removing data, too).
	Level string `json:"level"`
	// Source is the time's source: ntp, explorer-trusted, start (the
	// machine's own clock), explorer, or empty.
	Source string `json:"source"`
	// Uptime is the node's uptime, summed over reboots, in seconds.
	Uptime int64  `json:"uptime"`
	Why    string `json:"why"`
}

// Explorer is the state of the contact with the explorer.
type Explorer struct {
	URL string `json:"url"`
	// LastContact is the time of its last good answer since the start; nil for never.
	LastContact *time.Time `json:"last_contact"`
	// LastError is the last failure since; empty without one.
	LastError string `json:"last_error,omitempty"`
}

// Module is whether a module answers on the bus.
type Module struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
	// State is the module's own document, of a module that has no members of its own in Status.
	State json.RawMessage `json:"state,omitempty"`
}

// ModuleOf is the part of a status that belongs to the module of that name; nil when it has none.
func ModuleOf(s *Status, name string) *Module {
	for i := range s.Modules {
		if s.Modules[i].Name == name {
			return &s.Modules[i]
		}
	}
	return nil
}

// Storage is the node's storage.
type Storage struct {
	Pools         []node.Pool         `json:"pools"`
	BrokenPools   []node.BrokenPool   `json:"broken_pools"`
	BrokenDevices []node.BrokenDevice `json:"broken_devices"`
	Quota         string              `json:"quota"`
}

// Workload is one record of the store.
type Workload struct {
	ID    string         `json:"id"`
	Type  workload.Type  `json:"type"`
	User  string         `json:"user"`
	Phase string         `json:"phase"`
	State workload.State `json:"state,omitempty"`
	// Cause is the error of the last attempt.
	Cause       string     `json:"cause,omitempty"`
	Attempts    int        `json:"attempts"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
	// Waiting is the workload's reason to wait; empty when it waits for nothing.
	Waiting   string    `json:"waiting,omitempty"`
	Expires   time.Time `json:"expires"`
	Delivered bool      `json:"delivered"`
	// Restored counts its repairs since the start, after it was gone or changed;
	// Drift is the last time, nil for never.
	Restored int    `json:"restored"`
	Drift    *Drift `json:"drift,omitempty"`
}

// Drift is an observed difference between a workload and how it was made.
type Drift struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// Orphan is an object with croft's label and no record.
type Orphan struct {
	Type  workload.Type `json:"type"`
	ID    string        `json:"id"`
	Since time.Time     `json:"since"`
}
