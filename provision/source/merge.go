package source

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
)

// Merge yields the items of all sources, and closes when all have.
func Merge(log zerolog.Logger, sources ...Source) Source { return merged{log, sources} }

type merged struct {
	log     zerolog.Logger
	sources []Source
}

func (m merged) Items(ctx context.Context) <-chan Item {
	all := make([]func(context.Context, chan<- Item) error, len(m.sources))
	for i, s := range m.sources {
		all[i] = func(ctx context.Context, out chan<- Item) error { return forward(ctx, s.Items(ctx), out) }
	}
	return yieldAll(ctx, m.log, "sources", all)
}

// Combined is Merge for the seed's kind of source.
func Combined(log zerolog.Logger, sources ...workload.ReservationSource) workload.ReservationSource {
	return combined{log, sources}
}

type combined struct {
	log     zerolog.Logger
	sources []workload.ReservationSource
}

func (c combined) Reservations(ctx context.Context) <-chan *workload.Reservation {
	all := make([]func(context.Context, chan<- *workload.Reservation) error, len(c.sources))
	for i, s := range c.sources {
		all[i] = func(ctx context.Context, out chan<- *workload.Reservation) error {
			return forward(ctx, s.Reservations(ctx), out)
		}
	}
	return yieldAll(ctx, c.log, "sources", all)
}
