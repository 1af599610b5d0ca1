package source

import (
	"context"
	"sync"

	"github.com/croft-edge/croft/pkg/workload"
)

// Merge yields what any of the sources yields, and closes when all have.
func Merge(sources ...Source) Source { return merged(sources) }

type merged []Source

func (m merged) Items(ctx context.Context) <-chan Item {
	channels := make([]<-chan Item, len(m))
	for i, s := range m {
		channels[i] = s.Items(ctx)
	}
	return join(ctx, channels)
}

// Combined is Merge for the seed's kind of source.
func Combined(sources ...workload.ReservationSource) workload.ReservationSource {
	return combined(sources)
}

type combined []workload.ReservationSource

func (c combined) Reservations(ctx context.Context) <-chan *workload.Reservation {
	channels := make([]<-chan *workload.Reservation, len(c))
	for i, s := range c {
		channels[i] = s.Reservations(ctx)
	}
	return join(ctx, channels)
}

func join[T any](ctx context.Context, channels []<-chan T) <-chan T {
	out := make(chan T)
	var open sync.WaitGroup
	for _, in := range channels {
		open.Go(func() { forward(ctx, in, out) })
	}
	go func() {
		open.Wait()
		close(out)
	}()
	return out
}

func forward[T any](ctx context.Context, in <-chan T, out chan<- T) {
	for {
		select {
		case <-ctx.Done():
			return
		case v, ok := <-in:
			if !ok || !send(ctx, out, v) {
				return
			}
		}
	}
}
