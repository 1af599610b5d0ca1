package source

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// expiredInterval is how often a store is asked for expired reservations: it can't say when to ask.
const expiredInterval = 5 * time.Second

// Decommission yields the store's expired reservations, again at each look until
// they are gone from store. The engine has its own timer on the earliest expiry
// and doesn't need it; it is for stores that only know GetExpired.
func Decommission(store workload.ReservationExpirer, log zerolog.Logger) workload.ReservationSource {
	return &expired{store: store, log: log}
}

type expired struct {
	store workload.ReservationExpirer
	log   zerolog.Logger
}

func (e *expired) Reservations(ctx context.Context) <-chan *workload.Reservation {
	return yield(ctx, e.log, "expired", e.run)
}

func (e *expired) run(ctx context.Context, out chan<- *workload.Reservation) error {
	for {
		var ended []*workload.Reservation
		err := supervise.Guard(e.log, "expired", func() (err error) {
			ended, err = e.store.GetExpired()
			return err
		})
		if err != nil {
			e.log.Error().Err(err).Msg("cannot get expired reservations")
		}
		for _, r := range ended {
			if r != nil && !send(ctx, out, r) {
				return ctx.Err()
			}
		}
		if !wait(ctx, expiredInterval) {
			return ctx.Err()
		}
	}
}
