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
// return errors with a node.Kind, which decides what happens next. What is on
// the node under that ID with another reservation's hash is never touched.
type Provisioner interface {
	// Provision makes the workload, or adopts the one that is there, and
	// returns the result's data (nil for none). On failure it has taken back
	// what this attempt made, never what it found; what a Preparer got stays until
	// Decommission. Exist when what is there is another reservation's.
	Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error)
	// Decommission takes the workload down and gives back all that it held.
	// What is gone already, or another reservation's, is not an error. Busy when
	// others need it.
	Decommission(ctx context.Context, r *workload.Reservation) error
	// Remove takes down an orphan: what has that ID and that hash, and nothing else
	// that has the ID. With the zero hash, what has none. NotExist is not an error,
	// Busy when others need it.
	Remove(ctx context.Context, orphan Label) error
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

// Stopper is a Provisioner whose workloads run. The engine stops one that is
// over while its data, or the proof of its end, has to be waited for; Provision
// starts it again, with what it has written.
type Stopper interface {
	Stop(ctx context.Context, r *workload.Reservation) error
}

// Watched is a Provisioner that can tell of its workloads how they are, not only
// that they are there. Where one is, the engine asks Look in the place of List,
// every few seconds: it should be one call of the module, and change nothing.
type Watched interface {
	// Look returns what List would, and of each how it is. An ID comes as often as
	// there are things that have it, each with another hash.
	Look(ctx context.Context) (map[Label]Seen, error)
}

// Seen is how a workload is that is on the node.
type Seen struct {
	// Drift says what differs from how Provision made it, in words: empty when
	// nothing does. Provision makes it right.
	Drift string
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

// Look asks p how its workloads are, by their labels: one that can only list them
// says that nothing differs, and doesn't know their hashes.
func Look(ctx context.Context, p Provisioner) (map[Label]Seen, error) {
	if w, ok := p.(Watched); ok {
		return w.Look(ctx)
	}
	ids, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	seen := make(map[Label]Seen, len(ids))
	for _, id := range ids {
		seen[Label{ID: id}] = Seen{}
	}
	return seen, nil
}

// Successor is a Provisioner whose workloads may take the place of others of their
// name: each has its own on the node, and one of them runs at a time.
type Successor interface {
	// Succeed is Provision of r, which takes over what only one of a name can have,
	// such as its addresses. All that can be made or found wrong beside the others is,
	// before any of them is stopped; what they have written stays. When r can't take
	// their place, it is stopped and place.Older, if there is one, runs again as it
	// did: also then what it returns is why r couldn't. Others are never removed.
	Succeed(ctx context.Context, r *workload.Reservation, place Place) (json.RawMessage, error)
}

// Place is what a workload finds of its name.
type Place struct {
	// Others are those of its name that may run, or may have begun to.
	Others []*workload.Reservation
	// Older is the one of them that stands until r has taken its place for good;
	// nil when there is none, or r is what stands.
	Older *workload.Reservation
}

// Demand is what a workload takes of the node. Sizes are in bytes.
type Demand struct {
	CPU    uint64
	Memory uint64
	SSD    uint64
	HDD    uint64
	// Tunnels is of the memory of the process that holds networks' tunnels and names.
	Tunnels uint64
}
