// Package provisioner is what the engine knows of a type of workload: how to
// provision and decommission it. The interface and the undo stack live
// here, one folder below for each type.
package provisioner

import (
	"context"
	"encoding/json"

	"github.com/croft-edge/croft/pkg/workload"
)

// Provisioner provisions and decommissions one type of workload. Both methods
// are idempotent by the reservation's ID, respect ctx in every wait, and
// return errors with a node.Kind, which decides what happens next.
type Provisioner interface {
	// Provision makes the workload, or adopts the one that is there, and
	// returns the result's data (nil for none). On failure it has taken back
	// what this attempt made, never what it found.
	Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error)
	// Decommission takes the workload down and gives back all that it held.
	// What is gone already is not an error. Busy when others need it.
	Decommission(ctx context.Context, r *workload.Reservation) error
	// List returns the IDs of the workloads that are on the node, from the
	// modules, with or without a record.
	List(ctx context.Context) ([]string, error)
}

// DataHolder is a Provisioner whose workloads hold what their user wrote:
// taking one down can't be made good. The engine takes such a workload down only
// by a verified deletion, or once time can be trusted by more than one source.
type DataHolder interface {
	HoldsData() bool
}

// Stopper is a DataHolder whose workloads run. The engine stops one that is
// over while its data has to stay for now; Provision starts it again.
type Stopper interface {
	Stop(ctx context.Context, r *workload.Reservation) error
}

// Watched is a Provisioner that can tell of its workloads how they are, not only
// that they are there. Where one is, the engine asks Look in the place of List,
// every few seconds: it should be one call of the module, and change nothing.
type Watched interface {
	// Look returns what List would, and of each what differs from how Provision
	// made it, in words: empty when nothing does. Provision makes it right.
	Look(ctx context.Context) (map[string]string, error)
}

// Preparer is a Provisioner whose workloads need something that takes long to
// get and takes nothing from others meanwhile, such as an image. The engine asks
// for it ahead of Provision, and handles other reservations until it is there.
type Preparer interface {
	// Prepare begins to get what Provision needs of that kind, or goes on
	// getting it, and returns at once. It may be asked as often as one likes.
	// What it has got for a reservation, Decommission gives back.
	Prepare(ctx context.Context, r *workload.Reservation) (Progress, error)
}

// Progress is how far a Preparer has come.
type Progress struct {
	Ready bool
	// What is it in words, for people: "image: 12 of 80 MiB".
	What string
}

// Look asks p how its workloads are, by ID: one that can only list them says
// that nothing differs.
func Look(ctx context.Context, p Provisioner) (map[string]string, error) {
	if w, ok := p.(Watched); ok {
		return w.Look(ctx)
	}
	ids, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]string, len(ids))
	for _, id := range ids {
		seen[id] = ""
	}
	return seen, nil
}

// Demand is what a workload takes of the node. Sizes are in bytes.
type Demand struct {
	CPU    uint64
	Memory uint64
	SSD    uint64
	HDD    uint64
}
