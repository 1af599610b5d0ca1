package engine

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// loop is one life of the engine's thread: the desk, and the goroutines beside it.
type loop struct {
	parts  *Config
	desk   *desk
	beside *beside
	work   context.Context
	stop   context.Context
	offers chan offered
	// asking is full while a request for the offer hasn't returned.
	asking chan struct{}
}

type offered struct {
	offer admit.Offer
	err   error
}

func (e *Engine) loop(work, stop context.Context) *loop {
	l := &loop{
		parts: e.parts, desk: newDesk(e.parts, e.notes), work: work, stop: stop,
		offers: make(chan offered, 1), asking: make(chan struct{}, 1),
	}
	l.beside = &beside{parts: e.parts, work: work, ends: make(chan outcome), gone: stop.Done(), starting: e.starting}
	l.desk.flights.start = l.beside.start
	l.desk.judging.ask = l.askOffer
	return l
}

// askOffer asks for the node's offer, beside the engine's thread.
func (l *loop) askOffer() {
	go supervise.Do(l.parts.Log, "offer", func() {
		ctx, cancel := context.WithTimeout(l.work, l.parts.Limits.Judge)
		defer cancel()
		o, answered := l.offer(ctx)
		if !answered {
			o.err = node.Errorf(node.Transient, "no answer within %s", l.parts.Limits.Judge)
		}
		l.offers <- o
	})
}

// offer asks once; false when there is no answer in time. A call that hangs is left
// behind, and no other is made beside it.
func (l *loop) offer(ctx context.Context) (o offered, answered bool) {
	select {
	case l.asking <- struct{}{}:
	case <-ctx.Done():
		return o, false
	}
	done := make(chan offered, 1)
	go supervise.Do(l.parts.Log, "offer", func() {
		defer func() { <-l.asking }()
		var o offered
		o.err = supervise.Guard(l.parts.Log, "offer", func() (err error) {
			o.offer, err = l.parts.Admission.Offer(ctx)
			return err
		})
		done <- o
	})
	select {
	case o = <-done:
		return o, true
	case <-ctx.Done():
		return o, false
	}
}

// restore begins to bring the node to the records' state, without any explorer.
// False when the engine ended before.
func (l *loop) restore() bool {
	recs, ok := l.list()
	if ok {
		l.desk.restore(recs, l.lookAtAll)
	}
	return ok
}

// list reads the records, however long that takes.
func (l *loop) list() ([]store.Record, bool) {
	for failures := 1; ; failures++ {
		recs, err := l.parts.Records.List()
		if err == nil {
			return recs, true
		}
		l.parts.Log.Error().Err(err).Int("attempts", failures).Msg("cannot list the records: nothing is done before")
		l.desk.notes.pulse.Moved() // it goes on, though it doesn't get far
		if !pause(l.stop, l.parts.Limits.Retry.Delay(failures)) {
			return nil, false
		}
	}
}

// startLook is how long the start waits for modules that don't answer: the source
// of drift asks them again.
const startLook = 3 * time.Second

// lookAtAll lists every module's workloads, all at once. A module that doesn't
// answer is asked again while the node runs.
func (l *loop) lookAtAll() drift.Seen {
	type answer struct {
		t     workload.Type
		found map[provisioner.Label]provisioner.Seen
		err   error
	}
	ctx, cancel := context.WithTimeout(l.work, min(l.parts.Limits.List, startLook))
	defer cancel()
	answers := make(chan answer, len(l.parts.Provisioners))
	for t, p := range l.parts.Provisioners {
		go supervise.Do(l.parts.Log, "list", func() {
			a := answer{t: t}
			a.err = supervise.Guard(l.parts.Log, "list", func() (err error) {
				a.found, err = provisioner.Look(ctx, p)
				return err
			})
			answers <- a
		})
	}
	there := drift.Seen{}
	silent := len(l.parts.Provisioners)
	for silent > 0 {
		select {
		case a := <-answers:
			silent--
			if a.err != nil {
				l.parts.Log.Warn().Str("type", string(a.t)).Str("step", "list").Err(a.err).Msg("cannot compare: tried again")
				continue
			}
			if a.found == nil {
				a.found = map[provisioner.Label]provisioner.Seen{}
			}
			there[a.t] = a.found
		case <-ctx.Done():
			l.parts.Log.Warn().Int("modules", silent).Str("step", "list").Msg("modules don't answer: tried again")
			return there
		}
	}
	return there
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
