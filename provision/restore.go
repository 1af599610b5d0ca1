package provision

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// restore brings the node to what the records say, without any explorer, and
// sets all timers. Whatever can't be done now is tried again by a timer.
func (e *NodeEngine) restore(work, stop context.Context) {
	start := time.Now()
	failures := 0
	recs, err := e.records.List()
	for err != nil {
		failures++
		e.log.Error().Err(err).Int("attempts", failures).Msg("cannot list the records: nothing is done before")
		if !pause(stop, e.limits.Retry.Delay(failures)) {
			return
		}
		recs, err = e.records.List()
	}
	for _, rec := range recs {
		e.schedule(rec)
	}
	// Whatever is left over has a timer, or is seen again by the source of drift.
	made, _ := e.compare(work, stop, comparison{recs: recs, there: e.lookAtAll(work), start: true})
	e.resyncLost()
	e.ready.Store(true)
	e.log.Info().Int("records", len(recs)).Int("differences", made).Dur("took", time.Since(start)).Msg("restored")
}

// lookAtAll asks every module what it has, once. What doesn't answer is looked
// at again while the node runs.
func (e *NodeEngine) lookAtAll(ctx context.Context) seen {
	there := seen{}
	for _, t := range workload.Types() {
		if e.provisioners[t] == nil {
			continue
		}
		found, err := e.lookAt(ctx, t)
		if err != nil {
			e.log.Warn().Str("type", string(t)).Str("step", "list").Err(err).Msg("cannot compare: looked at again")
			continue
		}
		there[t] = found
	}
	return there
}

// damaged is what a store that sets damaged files aside tells.
type damaged interface {
	Quarantined() []store.Quarantine
}

// resyncLost asks the explorer for everything again when a record's file was
// damaged: its reservation comes again and adopts what is on the node.
func (e *NodeEngine) resyncLost() {
	records, ok := e.records.(damaged)
	if !ok {
		return
	}
	for _, q := range records.Quarantined() {
		if q.ID == "" {
			continue
		}
		if _, err := e.records.Record(q.ID); node.KindOf(err) == node.NotExist {
			e.log.Warn().Str("id", q.ID).Str("cause", q.Cause).Msg("a record was lost: the explorer is asked for everything again")
			e.resync()
			return
		}
	}
}

// resync makes the sources that can bring everything again do so.
func (e *NodeEngine) resync() {
	for _, s := range e.sources {
		if r, ok := s.(interface{ Reset() }); ok {
			r.Reset()
		}
	}
}

// pause returns after d, or false at once when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
