// Package registration registers this node at the explorer, with its resources, and sends heartbeats.
// The node works without it: everything here is retried for ever, and nothing waits for it.
package registration

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// Explorer is the part of the explorer's API that registration uses.
type Explorer interface {
	RegisterNode(ctx context.Context, n explorer.Node) error
	Heartbeat(ctx context.Context, nodeID string, h explorer.Heartbeat) error
}

// Facts are what the node reports about itself. Node is sent again when it has changed, Heartbeat each
// time.
type Facts struct {
	Node      explorer.Node
	Heartbeat explorer.Heartbeat
}

// Config configures a Registration.
type Config struct {
	Explorer Explorer
	// Facts reads the current facts.
	Facts func(ctx context.Context) (Facts, error)
	// Contact receives the outcome of each call; it must not block.
	Contact func(err error)
	// Every is the time between heartbeats, give or take a fifth.
	Every time.Duration
	Log   zerolog.Logger
}

// Validate reports missing fields.
func (c Config) Validate() error {
	switch {
	case c.Explorer == nil || c.Facts == nil || c.Contact == nil:
		return errors.New("cannot register: Explorer, Facts and Contact must be set")
	case c.Every <= 0:
		return errors.Errorf("cannot register: Every is %s, must be above 0", c.Every)
	}
	return nil
}

// Registration keeps the explorer's record of this node up to date.
type Registration struct {
	Config
	first    chan struct{}
	tried    func()
	kick     chan struct{}
	told     explorer.Node
	known    bool
	failures int
}

// New makes a Registration.
func New(c Config) (*Registration, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	first := make(chan struct{})
	tried := sync.OnceFunc(func() { close(first) }) // Run may be called again after a panic
	return &Registration{Config: c, first: first, tried: tried, kick: make(chan struct{}, 1)}, nil
}

// Tried is closed once the first registration has succeeded or failed.
func (r *Registration) Tried() <-chan struct{} { return r.first }

// Forgotten reports that the explorer doesn't know this node: the node registers again at once. It
// doesn't block.
func (r *Registration) Forgotten() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run registers, then sends heartbeats, until ctx is done.
func (r *Registration) Run(ctx context.Context) error {
	defer r.tried()
	for {
		err := r.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		r.tried()
		r.note(err)
		timer := time.NewTimer(r.delay())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-r.kick:
			timer.Stop()
			r.known = false
		}
	}
}

// round registers or sends a heartbeat, once.
func (r *Registration) round(ctx context.Context) error {
	facts, err := r.Facts(ctx)
	if err != nil {
		return err
	}
	if !r.known || !reflect.DeepEqual(r.told, facts.Node) {
		return r.register(ctx, facts)
	}
	err = r.Explorer.Heartbeat(ctx, facts.Node.NodeID, facts.Heartbeat)
	r.Contact(err)
	if errors.Is(err, node.NotExist) {
		r.Log.Warn().Msg("the explorer has forgotten this node: registering again")
		return r.register(ctx, facts)
	}
	return err
}

func (r *Registration) register(ctx context.Context, facts Facts) error {
	n := facts.Node
	n.Uptime, n.FreeResources = facts.Heartbeat.Uptime, facts.Heartbeat.FreeResources
	if used := facts.Heartbeat.UsedResources; used != nil {
		n.UsedResources = *used
	}
	err := r.Explorer.RegisterNode(ctx, n)
	r.Contact(err)
	r.known = err == nil
	if err != nil {
		return err
	}
	r.told = facts.Node
	r.Log.Info().Uint64("farm", n.FarmID).Msg("registered at the explorer")
	return nil
}

// note logs the loss of contact and its return, once each.
func (r *Registration) note(err error) {
	switch {
	case err == nil && r.failures > 0:
		r.Log.Info().Int("attempts", r.failures).Msg("the explorer knows this node again")
	case err != nil && r.failures == 0:
		r.Log.Warn().Err(err).Msg("cannot register at the explorer: tried again")
	case err != nil:
		r.Log.Debug().Err(err).Int("attempts", r.failures+1).Msg("cannot register at the explorer")
	}
	if err == nil {
		r.failures = 0
		return
	}
	r.failures++
}

// firstRetry is the wait after the first failure; it doubles up to Every.
const firstRetry = time.Second

// delay is the wait before the next round, with jitter: a fleet that lost its explorer mustn't return
// all at once.
func (r *Registration) delay() time.Duration {
	d := r.Every
	if r.failures > 0 {
		d = min(firstRetry<<min(r.failures-1, 20), r.Every)
	}
	return backoff.Around(d)
}
