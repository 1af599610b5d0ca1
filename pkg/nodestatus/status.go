// Package nodestatus holds the documents that a node shows of itself: its status, as the control
// socket and `croftd status -o json` give it, and its readiness, as /readyz does. Types only: who
// fills them in is in cmd/croftd.
package nodestatus

import (
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Status is what a node knows. Sizes are in bytes.
type Status struct {
	NodeID  string    `json:"node_id"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Started time.Time `json:"started"`
	// OneProcess is whether modules run in the node's process; else Bus is
	// where they are.
	OneProcess bool   `json:"one_process"`
	Bus        string `json:"bus,omitempty"`

	// Adopted is whether everything that the store knows was looked at since the start.
	Adopted bool `json:"adopted"`

	Store    Store    `json:"store"`
	Clock    Clock    `json:"clock"`
	Explorer Explorer `json:"explorer"`
	Modules  []Module `json:"modules"`
	Storage  Storage  `json:"storage"`
	// Networks are users' networks, Network how the module of these is.
	Networks []node.NetworkInfo `json:"networks"`
	Network  node.NetworkStatus `json:"network"`
	// Containers are users' containers, Images what reservations have of images;
	// Container and Image how the module of these is. OwnContainers are those that
	// the node runs for itself, such as zdb's.
	Containers    []node.ContainerInfo `json:"containers"`
	OwnContainers []node.ContainerInfo `json:"own_containers"`
	Container     node.ContainerStatus `json:"container"`
	Images        []node.Image         `json:"images"`
	Image         node.ImageStatus     `json:"image"`
	// ZDB are the node's zdb containers that have a port.
	ZDB      []node.ZDBServer           `json:"zdb"`
	Streams  []node.DebugInfo           `json:"streams"`
	Counters workload.ProvisionCounters `json:"counters"`

	Workloads []Workload `json:"workloads"`
	// Ceilings are the limits of croft's own parts, and of all containers together.
	Ceilings []Ceiling `json:"ceilings"`

	Undelivered int      `json:"undelivered"`
	Orphans     []Orphan `json:"orphans"`
	// Drifts counts by type, since the start, what was gone or changed under the node.
	Drifts map[workload.Type]uint64 `json:"drifts"`
	// DoorRestarts is how often the process of the node's door had to be started again.
	DoorRestarts uint64 `json:"door_restarts"`
}

// Ceiling is how a part of the node is limited by its control group. Memory and
// Used, what can't be given back of it now, are in bytes; 0 is no limit.
type Ceiling struct {
	Part      string `json:"part"`
	Memory    uint64 `json:"memory"`
	Used      uint64 `json:"used"`
	PIDs      uint64 `json:"pids"`
	IOWeight  uint64 `json:"io_weight"`
	CPUWeight uint64 `json:"cpu_weight"`
	// OOMKills is how often the kernel has killed a process of the part because
	// memory was short.
	OOMKills uint64 `json:"oom_kills"`
	// Missing are limits that this machine can't hold.
	Missing []string `json:"missing"`
}

// Store is how the node's memory is.
type Store struct {
	Birth string    `json:"birth"`
	Born  time.Time `json:"born"`
	// AcceptOlder is whether reservations from before Born are accepted.
	AcceptOlder bool `json:"accept_older"`
	// Quarantined are the files that could not be read.
	Quarantined []string `json:"quarantined"`
}

// Clock is how far the time is trusted.
type Clock struct {
	Now time.Time `json:"now"`
	// Trusted is whether Level is stop at least.
	Trusted bool `json:"trusted"`
	// Level is what the time is good for: none, stop (judging dates, stopping
	// workloads) or remove (removing data, too).
	Level string `json:"level"`
	// Source is where the time is from: ntp, explorer-trusted, start (the
	// machine's own clock), explorer, or empty.
	Source string `json:"source"`
	// Uptime is how long the node has been up, summed over reboots, in seconds.
	Uptime int64  `json:"uptime"`
	Why    string `json:"why"`
}

// Explorer is how contact with the explorer is.
type Explorer struct {
	URL string `json:"url"`
	// LastContact is when it last gave a good answer since the start; nil for never.
	LastContact *time.Time `json:"last_contact"`
	// LastError is what went wrong since; empty when nothing has.
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
	// Waiting is what it waits for; empty when it waits for nothing.
	Waiting   string    `json:"waiting,omitempty"`
	Expires   time.Time `json:"expires"`
	Delivered bool      `json:"delivered"`
	// Restored counts since the start how often it was made right after it was
	// gone or changed; Drift is the last time, nil for never.
	Restored int    `json:"restored"`
	Drift    *Drift `json:"drift,omitempty"`
}

// Drift is what of a workload was seen to differ from how it was made.
type Drift struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// Orphan is something with croft's label and no record.
type Orphan struct {
	Type  workload.Type `json:"type"`
	ID    string        `json:"id"`
	Since time.Time     `json:"since"`
}
