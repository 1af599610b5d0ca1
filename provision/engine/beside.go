package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
)

// stepGrace is how long after its deadline an effect may still return; then it is
// left behind.
const stepGrace = 2 * time.Second

// callGrace is how long a cancelled effect waits for the module's answer to its
// call: the next call for the same ID must not overtake it there.
const callGrace = 5 * time.Second

// beside runs effects beside the engine's thread.
type beside struct {
	parts *Config
	work  context.Context
	ends  chan outcome
	// gone is closed when nobody receives from ends any more.
	gone <-chan struct{}
	// going counts the effects that haven't returned.
	going sync.WaitGroup
	// starting is until when a module may be silent because it starts with the node.
	starting time.Time
}

// start runs one effect in goroutines of its own, within its deadline.
func (b *beside) start(f *flight) {
	ctx, cancel := context.WithTimeout(node.AwaitAnswers(b.work, callGrace), b.deadline(f.kind))
	f.cancel, f.deadline = cancel, time.Now().Add(b.deadline(f.kind))
	b.going.Add(1)
	go supervise.Do(b.parts.Log, string(f.kind), func() {
		defer b.going.Done()
		defer cancel()
		b.follow(ctx, f)
	})
}

// wait returns once every effect has returned, or after limit.
func (b *beside) wait(limit time.Duration) {
	done := make(chan struct{})
	go supervise.Do(b.parts.Log, "wait", func() {
		defer close(done)
		b.going.Wait()
	})
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

func (b *beside) deadline(kind lifecycle.EffectKind) time.Duration {
	switch kind {
	case lifecycle.DoFetch:
		return b.parts.Limits.Judge
	case lifecycle.DoProvision:
		return b.parts.Limits.Provision
	}
	return b.parts.Limits.Decommission
}

// follow waits for the effect's end, and reports it when it is late. A cancelled
// effect has the same time to undo its changes.
func (b *beside) follow(ctx context.Context, f *flight) {
	done := make(chan outcome, 1)
	go supervise.Do(b.parts.Log, string(f.kind), func() { done <- b.effect(ctx, f) })
	late := time.NewTimer(b.deadline(f.kind) + stepGrace)
	defer late.Stop()
	select {
	case o := <-done:
		b.send(o)
		return
	case <-b.work.Done():
		late.Reset(stepGrace)
	case <-late.C:
		late.Reset(0)
	}
	select {
	case o := <-done:
		b.send(o)
		return
	case <-late.C:
	}
	id := f.rec.ID()
	b.parts.Log.Error().Str("id", id).Str("step", string(f.kind)).Dur("deadline", b.deadline(f.kind)).Msg("step exceeded its deadline: abandoned")
	err := node.Errorf(node.Unknown, "cannot %s %s: no answer within %s", f.kind, id, b.deadline(f.kind))
	b.send(outcome{token: f.token, left: true, event: failure(err)})
	o := <-done
	o.returned = true
	b.send(o)
}

// send hands an outcome to the engine; it is dropped when the engine has ended.
func (b *beside) send(o outcome) {
	if b.work.Err() != nil && o.event.Err != nil {
		o.dropped = true // the record tells that it may be half done
	}
	select {
	case b.ends <- o:
	case <-b.work.Done():
		select {
		case b.ends <- o:
		case <-b.gone:
		}
	}
}

// effect calls the provisioner. A panic there becomes an error.
func (b *beside) effect(ctx context.Context, f *flight) outcome {
	o := outcome{token: f.token}
	id := f.rec.ID()
	err := supervise.Guard(b.parts.Log, string(f.kind)+" "+id, func() (err error) {
		o.event, o.progress, err = b.ask(ctx, f)
		return err
	})
	data := o.event.Data
	switch kind := node.KindOf(err); {
	case err == nil:
	case kind == node.Internal && panicked(err):
		// Nobody knows what state a panic left on the node.
		o.event = lifecycle.Event{
			Kind: lifecycle.FailUnknown, Err: node.Errorf(node.Internal, "cannot %s %s: internal error of the node", f.kind, id),
		}
	case kind == node.Internal && ctx.Err() != nil:
		o.event = failure(node.Errorf(node.Unknown, "%w", err))
	default:
		o.event = failure(err)
		o.event.Data = data
	}
	return o
}

func (b *beside) ask(ctx context.Context, f *flight) (ev lifecycle.Event, progress string, err error) {
	// An effect that returns after it was left behind shares nothing with the record.
	r := f.rec.Clone().Reservation
	p := b.parts.Provisioners[r.Type]
	if p == nil {
		return ev, "", node.Errorf(node.Transient, "cannot %s %s: type %q isn't offered by this node now", f.kind, r.ID, r.Type)
	}
	switch f.kind {
	case lifecycle.DoFetch:
		return b.fetch(ctx, p, r)
	case lifecycle.DoProvision:
		ev.Kind = lifecycle.Provisioned
		if s, ok := p.(provisioner.Successor); ok && f.place != nil {
			ev.Data, err = s.Succeed(ctx, r, *f.place)
			return ev, "", err
		}
		ev.Data, err = p.Provision(ctx, r)
		return ev, "", err
	case lifecycle.DoStop:
		ev.Kind = lifecycle.Stopped
		if s, ok := p.(provisioner.Stopper); ok {
			return ev, "", forgiven(s.Stop(ctx, r))
		}
		return ev, "", forgiven(p.Decommission(ctx, r))
	case removeOrphan:
		return ev, "", b.removeOrphan(ctx, p, f.orphan)
	}
	ev.Kind = lifecycle.Decommissioned
	return ev, "", forgiven(p.Decommission(ctx, r))
}

// fetch asks for the parts that a provision needs first. A module that doesn't answer because it starts with the node is asked again, as one whose fetch
// goes on.
func (b *beside) fetch(ctx context.Context, p provisioner.Provisioner, r *workload.Reservation) (lifecycle.Event, string, error) {
	preparer, ok := p.(provisioner.Preparer)
	if !ok {
		return lifecycle.Event{Kind: lifecycle.Fetched}, "", nil
	}
	progress, err := preparer.Prepare(ctx, r)
	if silent := errors.Is(ctx.Err(), context.DeadlineExceeded) && !node.KindOf(err).Final(); err != nil && silent && time.Now().Before(b.starting) {
		b.parts.Log.Info().Str("id", r.ID).Err(err).Msg("a module doesn't answer yet")
		return lifecycle.Event{Kind: lifecycle.FetchLater}, "a module of the node doesn't answer yet: " + err.Error(), nil
	}
	if err != nil || !progress.Ready {
		return lifecycle.Event{Kind: lifecycle.FetchLater}, progress.What, err
	}
	return lifecycle.Event{Kind: lifecycle.Fetched}, "", nil
}

// removeOrphan looks once more: an orphan that a record has adopted since, or
// whose label is gone, isn't removed.
func (b *beside) removeOrphan(ctx context.Context, p provisioner.Provisioner, o drift.Orphan) error {
	if rec, err := b.parts.Records.Record(o.ID); err == nil && adopts(rec, o.Hash) {
		return nil
	}
	found, err := provisioner.Look(ctx, p)
	if err != nil {
		return err
	}
	if _, still := found[o.Label()]; !still {
		return nil
	}
	return forgiven(p.Remove(ctx, o.Label()))
}

// forgiven takes NotExist for success: the workload is gone already.
func forgiven(err error) error {
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return err
}

// panicked reports whether an error comes from a panic.
func panicked(err error) bool {
	var p *supervise.Panic
	return errors.As(err, &p)
}
