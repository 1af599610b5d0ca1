package provision

import (
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/engine"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/seed"
	"github.com/croft-edge/croft/provision/store"
)

type (
	// NodeEngine is the engine with all its parts.
	NodeEngine = engine.Engine
	// Config is a NodeEngine's configuration.
	Config = engine.Config
	// Limits are its deadlines, waits and bounds.
	Limits = engine.Limits
	// Policy judges reservations.
	Policy = engine.Policy
	// Admission decides whether there is room.
	Admission = engine.Admission
	// Clock is the time, and how far it can be trusted.
	Clock = engine.Clock
	// Feedback delivers results to the explorer.
	Feedback = engine.Feedback
	// OrphanBook keeps the known orphans over restarts.
	OrphanBook = drift.OrphanBook
	// Orphan is something on the node that no record wants.
	Orphan = drift.Orphan
	// Board is where the engine shows what it has decided.
	Board = engine.Board
	// WorkloadStatus is an operator's view of a workload.
	WorkloadStatus = work.WorkloadSpec
	// Drift is a workload's last difference from how it was made.
	Drift = drift.Drift
	// Settings configures DefaultProvisioners.
	Settings = seed.Settings
	// Owners tells from the records whose workloads are here.
	Owners = seed.Owners
	// ZDBPlacement tells from the records in which containers namespaces live.
	ZDBPlacement = seed.ZDBPlacement
)

// NewEngine makes an engine of its parts.
func NewEngine(c Config) (*NodeEngine, error) { return engine.New(c) }

// DefaultLimits are the limits that a zero Limits stands for.
func DefaultLimits() Limits { return engine.DefaultLimits() }

// NewOrphanFile keeps an OrphanBook at path, whose folder must exist.
func NewOrphanFile(path string) *drift.OrphanFile { return drift.NewOrphanFile(path) }

// DefaultProvisioners makes the provisioners of all types that croft implements, on the
// modules that the bus's client reaches.
func DefaultProvisioners(client zbus.Client, s Settings) map[workload.Type]provisioner.Provisioner {
	return seed.DefaultProvisioners(client, s)
}

// NewOwners makes Owners of those records.
func NewOwners(records store.Records) *Owners { return seed.NewOwners(records) }

// NewZDBMapping makes a ZDBPlacement of those records.
func NewZDBMapping(records store.Records) *ZDBPlacement { return seed.NewZDBMapping(records) }
