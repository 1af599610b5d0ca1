// Package provisioner is the engine's view of a type of workload: how to
// provision and decommission it. It holds the interface and the undo stack;
// each type has a subpackage.
package provisioner

import (
	"context"
	"encoding/json"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Provisioner provisions and decommissions one type of workload. Both methods
// are idempotent by the reservation's ID, respect ctx in every wait, and
// return errors with a node.Kind, which decides what happens next. They never
// touch an object that has that ID and another reservation's hash.
type Provisioner interface {
	// Provision makes the workload, or adopts the existing one, and returns
	// the result's data (nil for none). On failure it has taken back what this
	// attempt made, never what it found; what a Preparer got stays until
	// Decommission. Exist when the existing one is another reservation's.
	Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error)
	// Decommission takes the workload down and gives back all that it held.
	// It is no error if it is gone already or another reservation's. Busy when
	// others need it.
	Decommission(ctx context.Context, r *workload.Reservation) error
	// Remove takes down an orphan: the objects with that ID and that hash, no others
	// of the ID. The zero hash means objects without one. No error when there are
	// none, Busy when others need one.
	Remove(ctx context.Context, orphan Label) error
	// List asks the modules for the IDs of the workloads on the node, with or
	// without a record.
	List(ctx context.Context) ([]string, error)
}

// DataHolder is a Provisioner whose workloads hold their user's data: taking
// one down is irreversible. The engine takes such a workload down only by a
// verified deletion, or once more than one source confirms the time.
type DataHolder interface {
	HoldsData() bool
}

// Stopper is a Provisioner whose workloads run. The engine stops an ended one
// whose data it must still keep, or whose end is still to be proved; Provision
// starts it again, with the data that it wrote.
type Stopper interface {
	Stop(ctx context.Context, r *workload.Reservation) error
}

// Placed is a Provisioner whose results name the pool that has a workload's data.
type Placed interface {
	// Pool is the pool in the data of a deployed workload's result, empty when that names none. It asks nobody.
	Pool(result json.RawMessage) string
}

// Watched is a Provisioner that can report its workloads' state, not only that
// they exist. The engine then calls Look in place of List, every few seconds:
// Look should make one call of the module, and change nothing.
type Watched interface {
	// Look returns the workloads that List would, with their state. An ID may occur
	// several times, each with another hash.
	Look(ctx context.Context) (map[Label]Seen, error)
}

// Narrow is a Watched provisioner that can look at some of its workloads alone.
type Narrow interface {
	// LookAt is Look of the workloads with these IDs: it asks the modules about nothing
	// else where they can be asked so. It may list others, too.
	LookAt(ctx context.Context, ids []string) (map[Label]Seen, error)
}

// Changes is a module's stream of the IDs whose objects have changed (see node.Changes).
type Changes interface {
	Changes(ctx context.Context) (<-chan node.Change, error)
}

// Told is a provisioner whose modules tell which of its workloads have changed. The engine
// then looks at these soon, and at all of them more seldom.
type Told interface {
	// Streams are the streams of all modules that have a part of its workloads.
	Streams() []Changes
}

// Hearing implements Told; a provisioner embeds it.
type Hearing struct {
	// From are the streams.
	From []Changes
}

// Streams implements Told.
func (h Hearing) Streams() []Changes { return h.From }

// LookAt returns the state of p's workloads with these IDs, and maybe of others: by Look
// if p isn't Narrow.
func LookAt(ctx context.Context, p Provisioner, ids []string) (map[Label]Seen, error) {
	if n, ok := p.(Narrow); ok {
		return n.LookAt(ctx, ids)
	}
	return Look(ctx, p)
}

// StreamsOf returns the streams of p's modules, none when it isn't Told.
func StreamsOf(p Provisioner) []Changes {
	if t, ok := p.(Told); ok {
		return t.Streams()
	}
	return nil
}

// Seen is the state of a workload on the node.
type Seen struct {
	// Drift describes the differences from the state that Provision made, in words;
	// empty when there are none. Provision repairs them.
	Drift string
}

// Preparer is a Provisioner whose workloads need something that is slow to
// get and takes nothing from others meanwhile, such as an image. The engine asks
// for it ahead of Provision, and handles other reservations until it is ready.
type Preparer interface {
	// Prepare begins to get what Provision needs of that kind, or continues,
	// and returns at once. It may be called any number of times.
	// Decommission gives back what it got for a reservation.
	Prepare(ctx context.Context, r *workload.Reservation) (Progress, error)
}

// Progress is how far a Preparer has come.
type Progress struct {
	Ready bool
	// What is the progress in words, for people: "image: 12 of 80 MiB".
	What string
}

// Look returns the state of p's workloads by label. If p isn't Watched, it reports
// no drift, and labels without hashes.
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

// Successor is a Provisioner whose workloads may take the place of others of the
// same name: each has objects of its own on the node, and one runs at a time.
type Successor interface {
	// Succeed is Provision of r, which takes over what only one of a name can have,
	// such as its addresses. It makes and checks all it can before it stops any of the
	// others; their data stays. When r can't take their place, r is stopped and
	// place.Older, if there is one, runs again as before; the error returned is still
	// r's. Others are never removed.
	Succeed(ctx context.Context, r *workload.Reservation, place Place) (json.RawMessage, error)
}

// Place holds the workloads of r's name that r replaces.
type Place struct {
	// Others are those that may be running or starting.
	Others []*workload.Reservation
	// Older is the one of them that is in place until r has replaced it for good;
	// nil when there is none, or r itself is in place.
	Older *workload.Reservation
}

// Demand is the amount of the node's resources that a workload takes. Sizes are in bytes.
type Demand struct {
	CPU    uint64
	Memory uint64
	SSD    uint64
	HDD    uint64
	// Tunnels is memory of the process that holds networks' tunnels and names.
	Tunnels uint64
}
