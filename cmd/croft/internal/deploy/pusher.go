package deploy

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// pusher brings signed documents to the explorer.
type pusher struct {
	explorer interface {
		Reserve(ctx context.Context, r *workload.Reservation) (string, error)
	}
	now    func() time.Time
	ledger *ledger
	nodes  *presence
	log    progress
}

// push sends an entry's document to the explorer and keeps the ID that it
// assigns. It may be called again: the same document gets the same ID. An entry
// that the explorer refuses for good is forgotten.
func (p *pusher) push(ctx context.Context, e *state.Entry) error {
	r, err := e.Reservation()
	if err != nil {
		return err
	}
	var id string
	err = again(ctx, func() (err error) {
		id, err = p.explorer.Reserve(ctx, r)
		return err
	})
	if err != nil {
		return p.failed(e, err)
	}
	e.ID = id
	if err := p.ledger.save(); err != nil {
		return err
	}
	p.log.say("%s: pushed as %s to node %s, until %s (%s)", e.Name, id, e.Node, r.Expires().Local().Format("2006-01-02 15:04"), lifetime.Text(r.Expires().Sub(p.now())))
	if away := p.nodes.away(ctx, e.Node); away != "" {
		p.log.say("%s: node %s is away%s: it picks %s up when it is back", e.Name, e.Node, away, id)
	}
	return nil
}

func (p *pusher) failed(e *state.Entry, cause error) error {
	cause = errors.Wrapf(cause, "cannot push %q", e.Name)
	if later(cause) {
		return node.Errorf(node.KindOf(cause), "%w; the signed document is kept, and apply pushes the same one again", cause)
	}
	if node.KindOf(cause) == node.Internal {
		return cause
	}
	if p.ledger.Current[e.Name] == e {
		p.ledger.Back(e)
	}
	if err := p.ledger.save(); err != nil {
		return err
	}
	return cause
}

// recover pushes signed documents that have no ID yet, so that every entry is
// known to the explorer or gone from the state.
func (p *pusher) recover(ctx context.Context) error {
	for _, name := range p.ledger.Names() {
		e := p.ledger.Current[name]
		if e.ID != "" {
			continue
		}
		r, err := e.Reservation()
		if err != nil {
			return err
		}
		if r.ExpiredAt(p.now()) {
			p.ledger.Back(e)
			continue
		}
		p.log.say("%s: the answer to its push isn't known; pushing the same document again", name)
		if err := p.push(ctx, e); err != nil {
			return err
		}
	}
	return p.ledger.save()
}
