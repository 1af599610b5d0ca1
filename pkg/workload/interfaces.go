package workload

import (
	"context"

	"github.com/pkg/errors"
)

// ErrPollEOS is returned by a poll that has reached the end of the stream:
// its reservations are still handled, later polls return nothing more.
var ErrPollEOS = errors.New("end of stream")

// ReservationSource yields the reservations that the engine handles. The
// channel is closed when the source has ended or ctx is done.
type ReservationSource interface {
	Reservations(ctx context.Context) <-chan *Reservation
}

// ReservationPoller asks an explorer for a node's reservations whose number is at least from.
type ReservationPoller interface {
	Poll(nodeID Identifier, from uint64) ([]*Reservation, error)
}

// ReservationGetter gets a reservation by its ID.
type ReservationGetter interface {
	Get(id string) (*Reservation, error)
}

// ReservationExpirer gets the reservations that have expired.
type ReservationExpirer interface {
	GetExpired() ([]*Reservation, error)
}

// ReservationCache keeps reservations.
type ReservationCache interface {
	Add(r *Reservation) error
	Get(id string) (*Reservation, error)
	Remove(id string) error
	Exists(id string) (bool, error)
	Counters() ProvisionCounters
}

// Feedbacker sends a reservation's result to an explorer.
type Feedbacker interface {
	Feedback(id string, r *Result) error
	Deleted(id string) error
}

// OwnerCache returns a reservation's owner.
type OwnerCache interface {
	OwnerOf(reservationID string) (string, error)
}

// ZDBMapping maps 0-db namespaces to their containers.
type ZDBMapping interface {
	// Get returns the container's ID; "" and false for an unknown namespace.
	Get(namespace string) (string, bool)
	// Set saves the namespace's container.
	Set(namespace, container string)
}

// Counter counts.
type Counter interface {
	Increment() int64
	Decrement() int64
	Current() int64
}

// Identifier is anything with an identity.
type Identifier interface {
	Identity() string
}

// StrIdentifier is an Identifier that is its own text.
type StrIdentifier string

// Identity returns the text.
func (s StrIdentifier) Identity() string { return string(s) }
