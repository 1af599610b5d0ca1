package debug

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// shipBatch is how many lines one call sends, shipWithin its deadline.
	shipBatch  = 256
	shipWithin = 3 * time.Second
	// lastWithin is the deadline for the queued lines when the process stops.
	lastWithin = time.Second
	// earlyFor is how long lines are queued before the debug module's first answer.
	earlyFor = 30 * time.Second
)

// Lines is the debug module's side of forwarding.
type Lines interface {
	Append(ctx context.Context, batch node.LogBatch) (node.LogDemand, error)
	Demand(ctx context.Context) (<-chan node.LogDemand, error)
}

// Forward sends a process's log lines to the debug module in another process,
// while there are streams. Lines from before the first answer are queued for
// earlyFor, so that a restarted process's first lines aren't lost.
type Forward struct {
	tap   *Tap
	part  string
	lines Lines
	log   zerolog.Logger

	queue *queue
	// until is when the demand for lines ends; zero when there is none.
	until time.Time
	// wanted is whether the debug module has asked for lines; until it first answers,
	// lines are queued in case it does.
	wanted bool
}

// NewForward makes a Forward for the process named part. It listens to tap at
// once. log must not write into tap.
func NewForward(tap *Tap, part string, lines Lines, log zerolog.Logger) *Forward {
	f := &Forward{tap: tap, part: part, lines: lines, log: log}
	f.want(earlyFor)
	return f
}

// Run sends lines until ctx is done.
func (f *Forward) Run(ctx context.Context) error {
	defer f.heard(node.LogDemand{})
	f.ship(ctx)
	for failures := 0; ctx.Err() == nil; {
		demand, err := f.lines.Demand(ctx)
		if err == nil {
			failures = 0
			f.follow(ctx, demand)
		} else if failures++; failures == 1 {
			f.log.Warn().Str("step", "forward").Err(err).Msg("cannot ask whether log lines are wanted: tried again")
		}
		pause(ctx, backoff.Backoff{Base: time.Second, Max: time.Minute}.Delay(max(failures, 1)))
		f.expire()
	}
	f.last(ctx)
	return nil
}

// last sends the queued lines when the process stops, if they are wanted.
func (f *Forward) last(ctx context.Context) {
	if f.queue == nil || !f.wanted {
		return
	}
	lines, lost := f.queue.take(shipBatch)
	if len(lines) == 0 && lost == 0 {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWithin)
	defer cancel()
	if _, err := f.lines.Append(call, f.batch(lines, lost)); err != nil {
		f.log.Debug().Str("step", "forward").Err(err).Msg("the last log lines didn't arrive")
	}
}

func (f *Forward) batch(lines []*line, lost uint64) node.LogBatch {
	batch := node.LogBatch{Part: f.part, Dropped: lost, Lines: make([]string, 0, len(lines))}
	for _, l := range lines {
		batch.Lines = append(batch.Lines, l.raw)
	}
	return batch
}

// follow sends lines while they are wanted, until the demand channel is closed.
func (f *Forward) follow(ctx context.Context, demand <-chan node.LogDemand) {
	look := time.NewTicker(demandEvery)
	defer look.Stop()
	for {
		var came <-chan struct{}
		if f.queue != nil {
			came = f.queue.came
		}
		select {
		case <-ctx.Done():
			return
		case d, open := <-demand:
			if !open {
				return
			}
			f.heard(d)
		case <-came:
			f.ship(ctx)
		case <-look.C:
			f.expire()
		}
	}
}

// ship sends the queued lines; an empty batch only asks for the demand.
func (f *Forward) ship(ctx context.Context) {
	if f.queue == nil {
		return
	}
	lines, lost := f.queue.take(shipBatch)
	batch := f.batch(lines, lost)
	// The call outlives ctx: the last lines of a stopping process matter most.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), shipWithin)
	defer cancel()
	demand, err := f.lines.Append(call, batch)
	if err == nil {
		f.heard(demand)
		return
	}
	// The lines may have arrived, so they aren't sent again, but count as lost.
	f.queue.lose(batch.Dropped + uint64(len(batch.Lines)))
	pause(ctx, time.Second)
}

// heard applies a demand of the debug module.
func (f *Forward) heard(d node.LogDemand) {
	f.wanted = d.Wanted
	if d.Wanted {
		f.want(demandFor)
		return
	}
	f.tap.to(nil)
	f.queue, f.until = nil, time.Time{}
}

// want listens to the tap for d from now on.
func (f *Forward) want(d time.Duration) {
	f.until = time.Now().Add(d)
	if f.queue == nil {
		f.queue = newQueue()
		f.tap.to(f.queue.offer)
	}
}

// expire stops listening to the tap when the demand has expired.
func (f *Forward) expire() {
	if f.queue != nil && time.Now().After(f.until) {
		f.heard(node.LogDemand{})
	}
}
