package provision

import (
	"github.com/threefoldtech/zbus"

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
	// Config is what one is made of.
	Config = engine.Config
	// Limits are its deadlines, waits and bounds.
	Limits = engine.Limits
	// Policy judges reservations.
	Policy = engine.Policy
	// Admission says whether there is room.
	Admission = engine.Admission
	// Clock is the time, and how far it can be trusted.
	Clock = engine.Clock
	// Feedback tells the explorer.
	Feedback = engine.Feedback
	// OrphanBook keeps since when an orphan has been known.
	OrphanBook = drift.OrphanBook
	// Orphan is something on the node that no record wants.
	Orphan = drift.Orphan
	// WorkloadStatus is what an operator sees of a workload.
	WorkloadStatus = engine.WorkloadStatus
	// Drift is what was last seen to differ of one.
	Drift = drift.Drift
	// Settings is what the provisioners of DefaultProvisioners are told.
	Settings = seed.Settings
	// Owners tells of the records whose workloads are here.
	Owners = seed.Owners
	// ZDBPlacement tells of the records in which containers namespaces live.
	ZDBPlacement = seed.ZDBPlacement
)

// NewEngine makes an engine of its parts.
func NewEngine(c Config) (*NodeEngine, error) { return engine.New(c) }

// DefaultLimits are what a zero Limits means.
func DefaultLimits() Limits { return engine.DefaultLimits() }

// NewOrphanFile keeps an OrphanBook at path, whose folder must exist.
func NewOrphanFile(path string) *drift.OrphanFile { return drift.NewOrphanFile(path) }

// DefaultProvisioners are those of all types that croft has built, on the
// modules that the bus's client reaches.
func DefaultProvisioners(client zbus.Client, s Settings) map[workload.Type]provisioner.Provisioner {
	return seed.DefaultProvisioners(client, s)
}

// NewOwners makes Owners of those records.
func NewOwners(records store.Records) *Owners { return seed.NewOwners(records) }

// NewZDBMapping makes ZDBPlacement of those records.
func NewZDBMapping(records store.Records) *ZDBPlacement { return seed.NewZDBMapping(records) }
