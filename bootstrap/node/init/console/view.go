// Package console shows whoever stands before a booted node what the node is and what is wrong with it: a screen on a Linux VT, a
// short summary on a serial line. It has a few safe keys there: to restart the machine, to power it off, to read a log.
//
// It changes nothing by itself: what an operator asks for is given to init, over a channel. It owns the terminals that it is given. All that
// it shows is printable ASCII, wherever it comes from: nobody's text can send a terminal escape sequences.
package console

import (
	"time"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
)

// View is all that is shown. Init fills what it knows by itself; a Collector fills Node.
type View struct {
	// Now is the time of the view. It and the other times keep their monotonic reading, since a machine's clock may be set by years after
	// its start.
	Now    time.Time
	Uptime time.Duration
	Image  Image
	// Kernel is the kernel's release.
	Kernel string

	Interfaces []Interface
	// Door is the address at which users reach the node; empty if it isn't known.
	Door string
	// Diskless tells that the node has no disk: it runs from memory. Left are the disks that the node doesn't use.
	Diskless bool
	Left     []LeftDisk
	Services []service.State
	// Refused are settings that aren't in force, each with the reason.
	Refused []string
	// Problems are others that init knows of.
	Problems []Problem
	// Stuck is for how long the engine hasn't turned; 0 while it turns.
	Stuck time.Duration

	// Memory is the machine's, in bytes, Free the part of it that is available.
	Memory, Free uint64
	Load         [3]float64

	Node Node
}

// Image is what the machine has booted.
type Image struct {
	Version string
	// Slot is a or b, empty where the medium has none; Trial tells that it is booted to try it once.
	Slot  string
	Trial bool
	// Upgrade is what an upgrade is doing, empty for nothing; Failed is why the last one failed.
	Upgrade, Failed string
}

// Interface is a network interface of the machine.
type Interface struct {
	Name      string
	Carrier   bool
	Addresses []string
	// Error is why it has no address; empty without a reason.
	Error string
}

// LeftDisk is a disk that was left alone, and why.
type LeftDisk struct{ Path, Why string }

// Pool is a pool of a node; sizes are in bytes.
type Pool struct {
	Name, Type  string
	Total, Free uint64
	// Broken is why it doesn't work; empty if it does.
	Broken string
}

// Answer is whether the node answers.
type Answer int

// The answers.
const (
	// Starting: it hasn't answered since the machine's start.
	Starting Answer = iota
	Answering
	// Silent: it has answered before.
	Silent
)

// Node is what the running node says of itself.
type Node struct {
	Answer Answer
	// Since is when it began to answer, or not to; Why is why it doesn't.
	Since time.Time
	Why   string

	// These stay known while it doesn't answer.
	ID, Version string
	Farm        uint64
	Explorer    string

	// These are empty while it doesn't answer.
	Contact  Contact
	Clock    Clock
	Counters workload.ProvisionCounters
	Pools    []Pool
	Ready    bool
	Checks   []host.Check
}

// Contact is the contact with the explorer.
type Contact struct {
	// Since is when the explorer was first seen to answer without a failure; zero while it doesn't.
	Since time.Time
	// Last is its last answer, zero for none; Error the last failure since.
	Last  time.Time
	Error string
}

// Clock is how far the node trusts the time.
type Clock struct{ Level, Source, Why string }

// Severity orders problems.
type Severity int

// The severities, the worst first.
const (
	Failing Severity = iota
	Warning
	Note
)

// Problem is something that an operator should know.
type Problem struct {
	Severity Severity
	// Name is short and stays the same while the problem lasts; Detail may change.
	Name, Detail string
}
