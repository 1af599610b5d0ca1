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

// Steady is how long a container must have run before the one that it replaces is
// given up: `croft apply --wait` watches for as long.
const Steady = 10 * time.Second

// steadyLook is the interval at which it is inspected meanwhile.
const steadyLook = 250 * time.Millisecond

// backTime bounds the restart of the older one: the attempt's own context may
// have ended.
const backTime = 90 * time.Second

// Succeed implements provisioner.Successor. It makes r's parts beside the others, but
// joins the network and starts r only once the others are stopped.
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
	if place.Older == nil { // r itself is in place: it keeps running
		return nil, undo.Rollback(ctx, err)
	}
	if failed := p.goBack(ctx, r, place.Older); failed != nil {
		err = node.Errorf(node.Unknown, "%w; cannot go back: %w", err, failed)
	}
	return nil, undo.Rollback(ctx, err)
}

// takePlace stops the others, keeping their data, and runs r's container in their
// place.
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

// goBack stops r's container and runs the older one again. If that fails, the engine's
// comparison of the node with the records finds and repairs it.
func (p *Provisioner) goBack(ctx context.Context, r, older *workload.Reservation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTime)
	defer cancel()
	if err := p.end(ctx, r, false); err != nil {
		return err
	}
	_, err := p.provision(ctx, older)
	return err
}

// watch watches a container that was started at a given time.
type watch struct {
	containers Containers
	enough     time.Duration
	began      time.Time
}

// steady waits until a container has run for long enough. Invalid when it fails
// meanwhile (see fares).
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
			// That the module doesn't answer says nothing about the container.
			if err := w.fares(ctx, id); node.KindOf(err) == node.Invalid {
				return err
			}
		}
	}
}

// fares returns Invalid when a container has ended by itself with a nonzero exit
// code, or couldn't be restarted, and Transient when its state is unknown.
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
