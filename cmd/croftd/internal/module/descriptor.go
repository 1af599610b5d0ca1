// Package module defines a Descriptor, which is all that croftd needs to know of a module, one value a
// module. Each is in a folder of its own below this one; package modules lists them. The commands, the
// daemon, health, metrics, settings and the documentation iterate over that list and know no module by
// its name.
package module

import (
	"context"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/threefoldtech/zbus"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
)

// Descriptor describes a module. Name, Bus, Summary and Open are required.
type Descriptor struct {
	// Name is the command that runs the module as a process of its own.
	Name    string
	Aliases []string
	// Bus is the module's name on the bus, and in the node's status.
	Bus string
	// Summary says in the help what the module serves.
	Summary string

	// Support is whether the module serves the node's own log lines rather than workloads. Such a
	// module starts before the others and stops after them, its own log lines are not streamed,
	// and its table is the last one of the status.
	Support bool
	// Memory is the memory limit in bytes of the module's process; 0 is the usual one.
	Memory uint64

	// Settings are documented in this order, after those of the modules before it.
	Settings []config.Setting
	// Commands are the module's commands for a stopped node.
	Commands []Command

	// Objects are the module's objects on the bus. While it doesn't run, their calls are answered with the reason.
	Objects []zbus.ObjectID
	// Serves are the types of workloads that need the module, where nothing else does: an operator may switch it off, and
	// the node is ready without it. nil for a module that a node can't be without.
	Serves []workload.Type

	// Constraints are what the module needs and the machine doesn't have: while there are any, it isn't opened.
	// nil where it needs nothing.
	Constraints func(f Facts) []Unmet
	// Open opens the module; Start, or a Supervisor, serves it.
	Open func(ctx context.Context, h Host) (*Instance, error)

	// Ask asks the module on the bus for its own state, and fills its members of it. It has two seconds; an error says
	// that the module doesn't answer.
	Ask func(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error
	// Changes is whether the module tells on the bus whose things have changed: see node.Changes.
	Changes bool
	// Kernel is whether the module tells on the bus what it lacks of the kernel: see node.Kernel, and Instance.Features.
	Kernel bool
	// Parts are the module's things that the node's state shows.
	Parts []Part
	// Check judges the node's state for /readyz; nil where the only criterion is that the module answers. It gets the
	// state without workloads, networks, containers, images and streams.
	Check func(s nodestatus.Status) host.Check
	// Metrics are documented in this order, after those of the modules before it.
	Metrics []Metric
	// Overview writes tables above that of the workloads in `croftd status`, Table writes below it.
	Overview, Table func(row Row, s nodestatus.Status, now time.Time)
}

// Part is one type of things that a module has.
type Part struct {
	// Of is the type of their resources.
	Of meta.ResourceWithRD
	// List asks the module on the bus for all of them.
	List func(ctx context.Context, client zbus.Client) ([]resource.Resource, error)
	// Every is the longest time between two questions. They are asked sooner when workloads change.
	Every time.Duration
}

// Row writes one row of a table.
type Row func(cells ...string)

// Metric is one metric of /metrics.
type Metric struct {
	Name   string
	Help   string
	Labels []string
	// Counter is whether the value only grows while the node runs; else it is a gauge.
	Counter bool
	// Read reads the metric's values from a status, each with its labels in order.
	Read func(s nodestatus.Status, value Value)
}

// Value takes one value of a metric.
type Value func(value float64, labels ...string)

// Truth is a truth value as a metric: 1 or 0.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Command is an operator's command for a stopped node's module: croftd MODULE NAME.
type Command struct {
	Name  string
	Usage string
	Flags []cli.Flag
	Run   func(ctx context.Context, o Order) error
}

// Order is a command with an operator's arguments.
type Order struct {
	Config config.Config
	// CLI has the command's own flags.
	CLI *cli.Context
	// Processes are all possible processes of the node.
	Processes []ceiling.Process
}

// UsageError is wrong usage of a command.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// The processes of a node that aren't modules.
const (
	// Whole is the whole node in one process.
	Whole = "run"
	// Provision is the engine.
	Provision = "provision"
)

// Processes are all possible processes of a node with these modules.
func Processes(all []Descriptor) []ceiling.Process {
	out := []ceiling.Process{{Name: Whole, Memory: ceiling.AgentMemory}}
	for _, d := range all {
		out = append(out, ceiling.Process{Name: d.Name, Memory: d.Memory})
	}
	return append(out, ceiling.Process{Name: Provision, Memory: ceiling.AgentMemory})
}

// Settings are the settings of all modules.
func Settings(all []Descriptor) []config.Setting {
	var out []config.Setting
	for _, d := range all {
		out = append(out, config.OfReader(d.Name, slices.Clone(d.Settings))...)
	}
	return append(out, off(all)...)
}

// SupportFirst returns the modules in the order in which they start.
func SupportFirst(all []Descriptor) []Descriptor {
	support, others := split(all)
	return append(support, others...)
}

// SupportLast returns the modules in the order in which a status shows them.
func SupportLast(all []Descriptor) []Descriptor {
	support, others := split(all)
	return append(others, support...)
}

func split(all []Descriptor) (support, others []Descriptor) {
	for _, d := range all {
		if d.Support {
			support = append(support, d)
		} else {
			others = append(others, d)
		}
	}
	return support, others
}
