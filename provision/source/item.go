package source

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Kind is the kind of an item.
type Kind string

// The kinds of item.
const (
	// Arrived: Reservation came from outside, and nothing of it is verified.
	Arrived Kind = "arrived"
	// Drifted: the workloads of Type on the node may differ from the records.
	Drifted Kind = "drifted"
)

// Item is one thing for the engine to handle.
type Item struct {
	Kind Kind
	// Type is the type that has drifted, for Drifted; Seen is its listing, by a look
	// that began at Began. IDs, when it isn't nil, are those that were looked at: Seen
	// says nothing of others.
	Type  workload.Type
	Seen  map[provisioner.Label]provisioner.Seen
	IDs   []string
	Began time.Time
	// Reservation is the reservation that arrived, for Arrived.
	Reservation *workload.Reservation
	// Done, which may be nil, is called once when the item has been handled. An error
	// says that nothing of it is durable: it has to come again.
	Done func(err error)
}

// Finish calls Done, if there is one.
func (i Item) Finish(err error) {
	if i.Done != nil {
		i.Done(err)
	}
}

// Source yields items. The channel is closed when the source has ended or ctx is done.
type Source interface {
	Items(ctx context.Context) <-chan Item
}

// From makes a Source of the seed's kind of source. Errors of the engine go
// nowhere: such a source has no way to deliver a reservation again.
func From(rs workload.ReservationSource, log zerolog.Logger) Source { return reservations{rs, log} }

type reservations struct {
	source workload.ReservationSource
	log    zerolog.Logger
}

func (s reservations) Items(ctx context.Context) <-chan Item {
	return yield(ctx, s.log, "source", s.run)
}

func (s reservations) run(ctx context.Context, out chan<- Item) error {
	in := s.source.Reservations(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r, ok := <-in:
			if !ok {
				return supervise.ErrEnded
			}
			if r != nil && !send(ctx, out, Item{Kind: Arrived, Reservation: r}) {
				return ctx.Err()
			}
		}
	}
}

// order sorts reservations that came together: first the deletions, users of a
// thing before the thing, then the others, the thing before its users. Within one
// place users take turns, so that one user's hundreds don't delay the others;
// otherwise the order of arrival stays.
func order(batch []*workload.Reservation) {
	orderBy(batch, func(r *workload.Reservation) *workload.Reservation { return r })
}

// orderBy is order for items that have a reservation.
func orderBy[T any](batch []T, of func(T) *workload.Reservation) {
	type placed struct {
		item        T
		place, turn int
	}
	type whose struct {
		user  string
		place int
	}
	turns := map[whose]int{}
	all := make([]placed, len(batch))
	for i, item := range batch {
		r := of(item)
		w := whose{r.User, place(r)}
		all[i] = placed{item, w.place, turns[w]}
		turns[w]++
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.turn, b.turn)) })
	for i, p := range all {
		batch[i] = p.item
	}
}

func place(r *workload.Reservation) int {
	rank := Rank(r.Type)
	if r.Deletion != nil {
		return -rank
	}
	return rank
}

// Rank is a type's place in the order of making; removal goes in the opposite
// order. It is at least 1; unknown types come last.
func Rank(t workload.Type) int {
	types := workload.Types()
	for i, known := range types {
		if t == known {
			return i + 1
		}
	}
	return len(types) + 1
}
