// Package debug provisions streams of the node's log lines to redis channels,
// only for the users that the operator lists. Each method makes at most one
// change, so there is nothing to undo.
//
// Streams live in the module's memory: a restart loses them, and the engine's
// comparison starts them again.
package debug

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Provisioner provisions reservations of type debug.
type Provisioner struct {
	streams Streams
	users   []string
}

// New makes the provisioner of streams. users are the IDs of the users who may
// have one: log lines tell of all that happens on the node, other users'
// workloads too, so only users that the operator lists may read them.
func New(streams Streams, users []string) *Provisioner {
	return &Provisioner{streams: streams, users: slices.Clone(users)}
}

// Provision starts the stream, or adopts the existing one. It refuses a user who
// isn't listed, and ends a stream of a user who was listed before.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	if err := p.allowed(r.User); err != nil {
		if err := p.Decommission(ctx, r); err != nil {
			return nil, err
		}
		return nil, node.Errorf(node.Refused, "cannot provision debug %s: %w", r.ID, err)
	}
	spec, err := plan(r)
	if err != nil {
		return nil, err
	}
	claim, err := provisioner.ClaimOf(r, nil)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision debug %s", r.ID)
	}
	spec.Hash = claim.Hash
	if _, err := p.streams.Start(ctx, spec); err != nil {
		return nil, errors.Wrapf(err, "cannot provision debug %s", r.ID)
	}
	return nil, nil
}

// Decommission ends the stream.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	claim, err := provisioner.ClaimOf(r, nil)
	if err == nil {
		err = p.end(ctx, r.ID, claim)
	}
	return errors.Wrapf(err, "cannot decommission debug %s", r.ID)
}

// Remove ends the stream of that ID if it has that hash. The module has only one
// stream of an ID.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	return errors.Wrapf(p.end(ctx, orphan.ID, orphan.Claim()), "cannot remove debug %s", orphan.ID)
}

// end ends the stream of that ID if the claim covers it.
func (p *Provisioner) end(ctx context.Context, id string, claim provisioner.Claim) error {
	all, err := p.streams.List(ctx)
	if err != nil {
		return err
	}
	is := func(s node.DebugInfo) bool { return s.ID == id && claim.Takes(s.Hash) }
	if !slices.ContainsFunc(all, is) {
		return nil
	}
	err = p.streams.Stop(ctx, id)
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return err
}

// List returns the IDs of the existing streams.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns the streams; one whose user is no longer listed has drifted.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	all, err := p.streams.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list debug streams")
	}
	seen := make(map[provisioner.Label]provisioner.Seen, len(all))
	for _, s := range all {
		one := provisioner.Seen{}
		if err := p.allowed(s.User); err != nil {
			one.Drift = err.Error()
		}
		seen[provisioner.LabelOf(s.ID, s.Hash)] = one
	}
	return seen, nil
}

// allowed returns an error if user may not have the node's logs.
func (p *Provisioner) allowed(user string) error {
	if slices.Contains(p.users, user) {
		return nil
	}
	return errors.Errorf("user %s may not have the node's logs; the operator lists users in debug-users", user)
}

// plan converts the reservation's data to a request to the debug module.
func plan(r *workload.Reservation) (node.DebugSpec, error) {
	d, err := workload.DataOf[workload.Debug](r)
	if err != nil {
		return node.DebugSpec{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot provision debug %s", r.ID))
	}
	if d.Port < 1 || d.Port > 65535 {
		return node.DebugSpec{}, node.Errorf(node.Invalid, "cannot provision debug %s: port is %d, must be from 1 to 65535", r.ID, d.Port)
	}
	if d.Host == "" {
		return node.DebugSpec{}, node.Errorf(node.Invalid, "cannot provision debug %s: host is empty, must be a host name or an address", r.ID)
	}
	channel := d.Channel
	if channel == "" {
		channel = workload.DebugChannel(r.NodeID)
	}
	return node.DebugSpec{ID: r.ID, User: r.User, Host: d.Host, Port: uint16(d.Port), Channel: channel}, nil
}
