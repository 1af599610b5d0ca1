package machine

import (
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// Phase is where a VM is in its life.
type Phase string

// The phases.
const (
	// Waiting has no process; it is started at Next.
	Waiting Phase = "waiting"
	// Starting may have a process already.
	Starting Phase = "starting"
	Running  Phase = "running"
	// Stopping is being deleted, and may have a process still.
	Stopping Phase = "stopping"
	// Lost has a record that can't be read: its process, if there is one, is left alone until it is deleted.
	Lost Phase = "lost"
)

// longestCause bounds a recorded cause, in bytes.
const longestCause = 1024

// Record is what the node knows of a VM. Times are in Unix nanoseconds, 0 for never.
type Record struct {
	// Spec is without its config disk, whose content may be secret; Configured says that there is one.
	Spec       node.VMSpec `json:"spec"`
	Configured bool        `json:"configured"`
	// UID is the ID of the user on the node that its process runs as.
	UID   uint32 `json:"uid"`
	Phase Phase  `json:"phase"`
	// Process runs it, while it is Running.
	Process     Process `json:"process"`
	Accelerator string  `json:"accelerator"`
	Times
	// Attempt numbers the starts, also those that fail, from any number on: a process that was started for an earlier one
	// gives up.
	Attempt uint64 `json:"attempt"`
	// Starts counts successful starts, Failures those ends and failed starts since it last ran
	// for steadyTime.
	Starts   uint64 `json:"starts"`
	Failures int    `json:"failures"`
	Cause    string `json:"cause"`
}

// Times are in nanoseconds of Unix time, 0 for none.
type Times struct {
	// Since is when its process was started, Ended when it ended last, Next when a waiting VM is started.
	Since int64 `json:"since"`
	Ended int64 `json:"ended"`
	Next  int64 `json:"next"`
}

// steadyTime is how long a VM runs until earlier failures no longer count.
const steadyTime = 10 * time.Minute

// Pauses are the pauses between a VM's end and its next start.
func Pauses() backoff.Backoff { return backoff.Backoff{Base: 2 * time.Second, Max: 5 * time.Minute} }

// New is the record of a VM that has not been started yet.
func New(spec node.VMSpec, uid uint32) Record {
	configured := len(spec.Config) > 0
	spec.Config = nil
	return Record{Spec: spec, Configured: configured, UID: uid, Phase: Waiting}
}

// Unreadable is the record of a VM whose own record can't be read.
func Unreadable(id string, uid uint32, cause string) Record {
	return Record{Spec: node.VMSpec{ID: id}, UID: uid, Phase: Lost, Cause: clip.Line(cause, longestCause)}
}

// Begin is the beginning of a start with an accelerator.
func (r Record) Begin(accelerator string) (Record, error) {
	if r.Phase != Waiting {
		return r, r.wrong("started")
	}
	r.Phase, r.Next, r.Accelerator = Starting, 0, accelerator
	r.Attempt++
	return r, nil
}

// Began records that a start has succeeded.
func (r Record) Began(p Process, now time.Time) (Record, error) {
	if r.Phase != Starting {
		return r, r.wrong("running")
	}
	r.Phase, r.Process, r.Since = Running, p, now.UnixNano()
	r.Starts++
	return r, nil
}

// Failed records that a start has failed, and schedules the next one.
func (r Record) Failed(cause string, now time.Time, pauses backoff.Backoff) (Record, error) {
	if r.Phase != Starting {
		return r, r.wrong("waiting")
	}
	return r.wait(cause, now, pauses), nil
}

// Exited records that its process has ended though nobody asked for it, and schedules the next start.
func (r Record) Exited(cause string, now time.Time, pauses backoff.Backoff) (Record, error) {
	if r.Phase != Running {
		return r, r.wrong("waiting")
	}
	if now.Sub(time.Unix(0, r.Since)) >= steadyTime {
		r.Failures = 0
	}
	r.Ended = now.UnixNano()
	return r.wait(cause, now, pauses), nil
}

func (r Record) wait(cause string, now time.Time, pauses backoff.Backoff) Record {
	r.Failures++
	r.Phase, r.Process, r.Since = Waiting, Process{}, 0
	r.Cause = clip.Line(cause, longestCause)
	r.Next = now.Add(pauses.Delay(r.Failures)).UnixNano()
	return r
}

// Renewed replaces the specification of a VM that waits: its next start uses it.
func (r Record) Renewed(spec node.VMSpec) (Record, error) {
	if r.Phase != Waiting {
		return r, r.wrong("changed")
	}
	r.Configured = len(spec.Config) > 0
	spec.Config = nil
	r.Spec = spec
	return r, nil
}

// Pause is how long a waiting VM waits still: never longer than the longest pause, whatever was done to the node's clock.
func (r Record) Pause(now time.Time) time.Duration {
	return min(max(time.Unix(0, r.Next).Sub(now), 0), Pauses().Max)
}

// Stop is the beginning of a deletion; it can be repeated.
func (r Record) Stop() Record {
	r.Phase, r.Next = Stopping, 0
	return r
}

func (r Record) wrong(to string) error {
	return node.Errorf(node.Internal, "VM %s is %s: it can't become %s", r.Spec.ID, r.Phase, to)
}

// Info is the VM as the module's contract describes it.
func (r Record) Info() node.VMInfo {
	state := map[Phase]string{Waiting: node.VMWaiting, Starting: node.VMWaiting, Running: node.VMRunning, Stopping: node.VMStopping, Lost: node.VMBroken}[r.Phase]
	restarts := uint64(0)
	if r.Starts > 0 {
		restarts = r.Starts - 1
	}
	return node.VMInfo{
		ID: r.Spec.ID, User: r.Spec.User, Hash: r.Spec.Hash, State: state, CPU: r.Spec.CPU, Memory: r.Spec.Memory,
		PID: uint64(r.Process.PID), Since: r.Since, Accelerator: r.Accelerator,
		Restarts: restarts, Ended: r.Ended, Next: r.Next, Cause: r.Cause,
	}
}
