package source

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// quickPoll is the least time of an empty answer for which the explorer really
// waited; a quicker one is followed by a pause.
const quickPoll = 500 * time.Millisecond

// Poll yields the reservations of store's poll, from number 0 on, then from the
// largest number seen plus one. Repeats are yielded again. It ends with
// workload.ErrPollEOS, after the reservations that came with it.
//
// Its cursor lives in memory and it can't deliver again when the engine failed to
// keep a reservation: croft's own nodes use Changes.
func Poll(store workload.ReservationPoller, nodeID workload.Identifier, log zerolog.Logger) workload.ReservationSource {
	return &seedPoll{store: store, node: nodeID, log: log, backoff: PollBackoff()}
}

type seedPoll struct {
	store   workload.ReservationPoller
	node    workload.Identifier
	log     zerolog.Logger
	backoff Backoff
}

type pollAnswer struct {
	batch []*workload.Reservation
	err   error
}

func (p *seedPoll) Reservations(ctx context.Context) <-chan *workload.Reservation {
	return yield(ctx, p.log, "poll", p.run)
}

func (p *seedPoll) run(ctx context.Context, out chan<- *workload.Reservation) error {
	var from uint64
	failures := 0
	for ctx.Err() == nil {
		start := time.Now()
		answer, ok := p.ask(ctx, from)
		if !ok {
			break
		}
		next, fresh := advance(from, answer.batch)
		for _, r := range ordered(answer.batch) {
			if !send(ctx, out, r) {
				return ctx.Err()
			}
		}
		from = next
		switch {
		case errors.Is(answer.err, workload.ErrPollEOS):
			return supervise.ErrEnded
		case answer.err != nil:
			failures++
			p.log.Warn().Err(answer.err).Uint64("from", from).Msg("cannot poll the explorer")
		case fresh || time.Since(start) >= quickPoll:
			failures = 0
			continue
		default: // it answered at once with nothing new: avoid a busy loop
			failures = max(failures, 1)
		}
		if !wait(ctx, p.backoff.Delay(failures)) {
			break
		}
	}
	return ctx.Err()
}

// ask polls in another goroutine, because a seed's poller takes no context.
func (p *seedPoll) ask(ctx context.Context, from uint64) (pollAnswer, bool) {
	answered := make(chan pollAnswer, 1)
	go func() {
		var a pollAnswer
		a.err = supervise.Guard(p.log, "poll", func() (err error) {
			a.batch, err = p.store.Poll(p.node, from)
			return err
		})
		answered <- a
	}()
	select {
	case a := <-answered:
		return a, true
	case <-ctx.Done():
		return pollAnswer{}, false
	}
}

// advance is the cursor after batch, and whether batch moved it. The largest
// number doesn't wrap.
func advance(from uint64, batch []*workload.Reservation) (uint64, bool) {
	next, fresh := from, false
	for _, r := range batch {
		if r == nil {
			continue
		}
		id, err := workload.ParseID(r.ID)
		if err != nil || id.N < from {
			continue
		}
		fresh = true
		after := id.N
		if after < math.MaxUint64 {
			after++
		}
		next = max(next, after)
	}
	// At the very end there is no later number: the last one comes back each time.
	return next, fresh && next != from
}

// ordered is batch without nils, in the order to handle it.
func ordered(batch []*workload.Reservation) []*workload.Reservation {
	out := make([]*workload.Reservation, 0, len(batch))
	for _, r := range batch {
		if r != nil {
			out = append(out, r)
		}
	}
	order(out)
	return out
}
