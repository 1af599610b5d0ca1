package nodeapi

import (
	"io"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// LogLine is node.LogLine on the wire.
type LogLine struct {
	At     int64  `json:"at"`
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// LogOptions selects lines of a workload's output.
type LogOptions struct {
	// Tail is the number of last lines to begin with; negative is all that
	// the node has.
	Tail int
	// Follow continues with new lines.
	Follow bool
}

// Stats is node.ContainerStats on the wire.
type Stats struct {
	ID           string `json:"id"`
	At           int64  `json:"at"`
	CPU          uint64 `json:"cpu"`
	Memory       uint64 `json:"memory"`
	MemoryLimit  uint64 `json:"memory_limit"`
	PIDs         uint64 `json:"pids"`
	PIDsLimit    uint64 `json:"pids_limit"`
	BlockRead    uint64 `json:"block_read"`
	BlockWritten uint64 `json:"block_written"`
	Received     uint64 `json:"received"`
	Sent         uint64 `json:"sent"`
}

// Size is a terminal's, in characters.
type Size struct {
	Width  uint16 `json:"width"`
	Height uint16 `json:"height"`
}

// ExecOptions describe the command to run in a container.
type ExecOptions struct {
	Args []string `json:"args"`
	// Env goes over the container's own.
	Env []string `json:"env,omitempty"`
	// Terminal gives it one of Size; stderr then comes with stdout.
	Terminal bool `json:"terminal,omitempty"`
	Size     Size `json:"size,omitzero"`
}

// ExecIO are the ends of an exec's streams. Stdin may be nil: it is empty then.
type ExecIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize delivers the terminal's new sizes; nil for none.
	Resize <-chan Size
}

// Status is the state of a workload as its owner sees it.
type Status struct {
	ID          string         `json:"id"`
	Type        workload.Type  `json:"type"`
	Phase       string         `json:"phase"`
	State       workload.State `json:"state,omitempty"`
	Error       string         `json:"error,omitempty"`
	Attempts    int            `json:"attempts"`
	NextAttempt time.Time      `json:"next_attempt,omitzero"`
	Expires     time.Time      `json:"expires"`
	// Delivered is whether the explorer has the newest result.
	Delivered bool `json:"delivered"`
	// Waiting is the workload's reason to wait; empty when it waits for nothing.
	Waiting  string `json:"waiting,omitempty"`
	Restored int    `json:"restored"`
	// Container and Image are set for a container, once there is one.
	Container *Container `json:"container,omitempty"`
	Image     *Image     `json:"image,omitempty"`
	// VM is set for a Kubernetes VM, once there is one.
	VM *VM `json:"vm,omitempty"`
}

// VM is the owner's view of node.VMInfo, with its guest's own report.
type VM struct {
	State       string `json:"state"`
	Accelerator string `json:"accelerator,omitempty"`
	Restarts    uint64 `json:"restarts"`
	Ended       int64  `json:"ended,omitempty"`
	Next        int64  `json:"next,omitempty"`
	Cause       string `json:"cause,omitempty"`
	// Guest is the guest's last report on its console (nocloud.Report): nocloud.Ready, or the reason why it isn't
	// ready. Empty until it reports, which is while it boots.
	Guest string `json:"guest,omitempty"`
	// LastLog is the console's last lines, unless the guest is ready.
	LastLog []string `json:"last_log,omitempty"`
}

// Container is the owner's view of node.ContainerInfo.
type Container struct {
	State    string `json:"state"`
	Image    string `json:"image"`
	Restarts uint64 `json:"restarts"`
	ExitCode uint64 `json:"exit_code"`
	Ended    int64  `json:"ended,omitempty"`
	Next     int64  `json:"next,omitempty"`
	// OOM reports that the container ended because memory was short, and its limit.
	OOM     string   `json:"oom,omitempty"`
	Cause   string   `json:"cause,omitempty"`
	Drift   string   `json:"drift,omitempty"`
	LastLog []string `json:"last_log,omitempty"`
}

// Image is the state of a container's image.
type Image struct {
	Digest    string `json:"digest,omitempty"`
	Size      uint64 `json:"size"`
	Done      uint64 `json:"done"`
	Total     uint64 `json:"total"`
	Unpacking bool   `json:"unpacking"`
	Ready     bool   `json:"ready"`
}

// Deletion is a signed deletion sent to the node without the explorer.
type Deletion struct {
	ID       string            `json:"id"`
	Deletion workload.Deletion `json:"deletion"`
}

// Version is the version of a node's software.
type Version struct {
	NodeID  string `json:"node_id"`
	Version string `json:"version"`
}

// The paths of a node's door; {id} is a reservation's ID.
const (
	PathVersion   = "/v1/version"
	PathDeletions = "/v1/deletions"
	PathWorkloads = "/v1/workloads/"
)

// The types of streams on the wire.
const (
	// Upgrade is the protocol that an exec's connection switches to.
	Upgrade = "croft-stream"
	// LinesType is the type of a body with one JSON value a line. Empty lines
	// only tell that the other side is alive.
	LinesType = "application/x-ndjson"
)

// Trailer is the last line of a body of LinesType that ended with an error.
type Trailer struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
}

// Event is something that has happened to a workload.
type Event struct {
	// Kind is Normal or Warning, Reason one word in UpperCamelCase, Operation Put, Delete, Purge or Secondary: see
	// docs/state.md.
	Kind      string `json:"kind"`
	Reason    string `json:"reason"`
	Operation string `json:"operation,omitempty"`
	Message   string `json:"message"`
	// Count is how often it has happened, from First to Last.
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Events is the answer to a request for a workload's events, the oldest first.
type Events struct {
	Events []Event `json:"events"`
}
