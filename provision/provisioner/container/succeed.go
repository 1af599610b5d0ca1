package container

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Steady is how long a container must have run that takes another's place, before
// that one is given up: `croft apply --wait` watches for as long.
const Steady = 10 * time.Second

// steadyLook is how often it is looked at meanwhile.
const steadyLook = 250 * time.Millisecond

// backTime bounds how long it may take to have the older one run again: the
// attempt's own context may be over.
const backTime = 90 * time.Second

// Succeed implements provisioner.Successor. Everything of r is made beside the others,
// but for what only one can have: its place in the network, and running.
func (p *Provisioner) Succeed(ctx context.Context, r *workload.Reservation, place provisioner.Place) (json.RawMessage, error) {
	result, err := p.succeed(ctx, r, place)
	var soon *endedError
	switch {
	case errors.As(err, &soon):
		return soon.sealed(r.User), errors.Wrapf(err, "cannot provision container %s", r.ID)
	case err != nil:
		return nil, errors.Wrapf(err, "cannot provision container %s", r.ID)
	}
	return json.Marshal(result)
}

func (p *Provisioner) succeed(ctx context.Context, r *workload.Reservation, place provisioner.Place) (*workload.ContainerResult, error) {
	want, image, err := p.ready(ctx, r)
	if err != nil {
		return nil, err
	}
	var undo provisioner.Undo
	box, err := p.box(ctx, want, &undo)
	if err != nil {
		return nil, undo.Rollback(ctx, err)
	}
	member, err := p.takePlace(ctx, box, place, &undo)
	if err == nil {
		return want.result(member, image), nil
	}
	if place.Older == nil { // it is what stands: what runs of it goes on
		return nil, undo.Rollback(ctx, err)
	}
	if failed := p.goBack(ctx, r, place.Older); failed != nil {
		err = node.Errorf(node.Unknown, "%w; cannot go back: %w", err, failed)
	}
	return nil, undo.Rollback(ctx, err)
}

// takePlace stops the others, with what they have written kept, and has r's container
// run in their place.
func (p *Provisioner) takePlace(ctx context.Context, box made, place provisioner.Place, undo *provisioner.Undo) (node.Member, error) {
	for _, other := range place.Others {
		if err := p.end(ctx, other, false); err != nil {
			return node.Member{}, errors.Wrapf(err, "cannot stop %s, whose place it takes", other.ID)
		}
	}
	began := time.Now()
	member, err := box.run(ctx, p.Networks, p.Containers, undo)
	if err != nil || place.Older == nil {
		return member, err
	}
	return member, watch{p.Containers, p.Steady, began}.steady(ctx, box.want.spec.ID)
}

// goBack stops r's container and has the older one run again. What of that fails is
// found by who compares the node with the records, and is mended.
func (p *Provisioner) goBack(ctx context.Context, r, older *workload.Reservation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTime)
	defer cancel()
	if err := p.end(ctx, r, false); err != nil {
		return err
	}
	_, err := p.provision(ctx, older)
	return err
}

// watch is how a container fares that was begun at a moment.
type watch struct {
	containers Containers
	enough     time.Duration
	began      time.Time
}

// steady waits until a container has run for long enough. Invalid when it ends by
// itself meanwhile, and fails.
func (w watch) steady(ctx context.Context, id string) error {
	enough := time.NewTimer(w.enough)
	defer enough.Stop()
	tick := time.NewTicker(min(steadyLook, w.enough))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return node.Errorf(node.Transient, "it had no time to run for %s: %w", w.enough, ctx.Err())
		case <-enough.C:
			return w.fares(ctx, id)
		case <-tick.C:
			// A module that doesn't answer says nothing about the container.
			if err := w.fares(ctx, id); node.KindOf(err) == node.Invalid {
				return err
			}
		}
	}
}

// fares is Invalid when a container has ended by itself with an exit code other than
// 0, or couldn't be started again.
func (w watch) fares(ctx context.Context, id string) error {
	info, err := w.containers.Inspect(ctx, id)
	switch {
	case err != nil:
		return node.Errorf(node.Transient, "it isn't known whether it runs: %w", err)
	case info.Ended != 0 && info.ExitCode != 0:
		why := fmt.Sprintf("it ended by itself with exit code %d, within %s of its start", info.ExitCode, time.Since(w.began).Round(time.Second))
		return node.WithKind(node.Invalid, &endedError{why, w.lastLines(ctx, id)})
	case info.Cause != "":
		return node.WithKind(node.Invalid, &endedError{"it can't be started again: " + info.Cause, w.lastLines(ctx, id)})
	}
	return nil
}
