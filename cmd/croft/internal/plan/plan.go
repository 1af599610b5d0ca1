package plan

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// Action is the kind of a workload's change.
type Action string

// The actions.
const (
	// None: it is as the file asks.
	None Action = "none"
	// Create: a reservation is made; there is none, or it has ended.
	Create Action = "create"
	// Resume: a document that was signed before is pushed (again).
	Resume Action = "resume"
	// Replace: the old reservation is deleted and a new one made.
	Replace Action = "replace"
	// Update: it is reserved again under its name. A network's members stay. A new
	// container takes the old one's place, once that has shown that it runs.
	Update Action = "update"
	// Renew: the same workload lives longer.
	Renew Action = "renew"
	// Delete: it isn't in the file any more.
	Delete Action = "delete"
	// Blocked: the user has to decide first; Reason has the question.
	Blocked Action = "blocked"
)

// Phase is the trusted state of a known reservation.
type Phase string

// The phases.
const (
	// Unpushed: signed, and nobody knows whether the explorer has it.
	Unpushed Phase = "unpushed"
	// Pending: the node hasn't answered.
	Pending Phase = "pending"
	// Deployed: the node answered ok.
	Deployed Phase = "deployed"
	// Failed: the node answered with an error.
	Failed Phase = "failed"
	// Ended: deleted, expired or evicted, or its deletion is signed.
	Ended Phase = "ended"
	// Lost: the explorer answers that it doesn't know it.
	Lost Phase = "lost"
)

// Wanted is a workload of the file. Its order is that of creation.
type Wanted struct {
	Name     string
	Type     workload.Type
	Node     string
	Network  string
	Digest   string
	Duration time.Duration
	// Uses names the workloads that its data refers to.
	Uses []string
}

// Known is the reservation of a name.
type Known struct {
	Name    string
	Type    workload.Type
	Node    string
	Network string
	ID      string
	Digest  string
	// Duration is that of the file at the last signing or renewal.
	Duration time.Duration
	Created  time.Time
	Expires  time.Time
	Phase    Phase
	// Why is the end's or the failure's cause, for people.
	Why string
	// Uses are the IDs that its data refers to, by name.
	Uses map[string]string
	// Hash is that of its reservation, Hashes are those that its data names, by
	// name. Where either is empty, IDs alone are compared.
	Hash   string
	Hashes map[string]string
	// Named says of a container that another may take its place. Older is the ID of
	// the one that runs because this one, which should have, has failed.
	Named bool
	Older string
}

// Outside is a network of the same user that isn't in the project's state.
type Outside struct {
	Node    string
	Network string
	ID      string
}

// Input is all that a plan is made of.
type Input struct {
	Now    time.Time
	Wanted []Wanted
	Known  []Known
	// Outside are the user's other networks. A node takes a network of the same
	// name for an update, whichever project it is of.
	Outside []Outside
	// Recreate creates lost reservations again.
	Recreate bool
}

// Change is the change of one workload.
type Change struct {
	Name   string        `json:"name"`
	Type   workload.Type `json:"type"`
	Node   string        `json:"node"`
	Action Action        `json:"action"`
	// ID is that of the reservation that is there; empty when there is none.
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Hint is worth knowing and changes nothing.
	Hint string `json:"hint,omitempty"`
	// LosesData is whether data on the node is lost by it.
	LosesData bool `json:"loses_data,omitempty"`
	// Takes is the user's network outside of the project that this one would take over.
	Takes string `json:"takes,omitempty"`
	// Stops is whether it forbids the whole plan.
	Stops bool `json:"-"`
	// Gone is whether the node has nothing of it: there is nothing to delete.
	Gone bool `json:"-"`
	// Expires is the new end that a renewal sets.
	Expires time.Time `json:"expires,omitzero"`
}

// Plan is the changes: those of the file's workloads in the order of creation,
// then those of workloads that aren't in the file any more.
type Plan struct {
	Changes []Change
}

// Changed reports whether anything would be done.
func (p Plan) Changed() bool {
	for _, c := range p.Changes {
		if c.Action != None {
			return true
		}
	}
	return false
}

// Losing are the changes with which data on a node goes; prune is whether
// deletions are carried out.
func (p Plan) Losing(prune bool) []Change {
	var out []Change
	for _, c := range p.Changes {
		if c.LosesData && (c.Action != Delete || prune) {
			out = append(out, c)
		}
	}
	return out
}
